// The six pipelines as one writes them in C for a core without vectors; images are bytes, one row after the other.
#include <stdint.h>

// Heights, widths; in the words of the call.
#define AT(image, y, x) ((image)[(y) * width + (x)])

static double square_root(double x) {
  double y;
  __asm__("fsqrt.d %0, %1" : "=f"(y) : "f"(x));
  return y;
}

void plain_tone(const int64_t* d, const uint8_t* image, uint8_t* out) {
  uint8_t table[256];
  for (int i = 0; i < 256; ++i) {
    const double x = i / 255.0;
    double y = x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14);
    y = y < 0 ? 0 : y > 1 ? 1 : y;
    table[i] = (uint8_t)(255 * y + 0.5);
  }
  for (int64_t i = 0; i < d[0] * d[1]; ++i) out[i] = table[image[i]];
}

// Columns first, then rows, of the pixels whose neighbours are all inside.
static void blurred(int64_t height, int64_t width, const uint8_t* image, uint8_t* out, uint16_t* line) {
  for (int64_t y = 0; y + 4 < height; ++y) {
    for (int64_t x = 0; x < width; ++x)
      line[x] = (uint16_t)(AT(image, y, x) + AT(image, y + 4, x) + 4 * (AT(image, y + 1, x) + AT(image, y + 3, x)) +
                           6 * AT(image, y + 2, x));
    for (int64_t x = 0; x + 4 < width; ++x) {
      const int32_t sum = line[x] + line[x + 4] + 4 * (line[x + 1] + line[x + 3]) + 6 * line[x + 2];
      const int32_t up = (sum + 128) >> 8;
      out[y * (width - 4) + x] = (uint8_t)((sum & 255) == 128 ? up & ~1 : up);  // ties to even
    }
  }
}

void plain_gaussian(const int64_t* d, const uint8_t* image, uint8_t* out) {
  static uint16_t line[4096];
  blurred(d[0], d[1], image, out, line);
}

void plain_sharpness(const int64_t* d, const uint8_t* image, float* out) {
  static uint8_t rows[3][4096];
  const int64_t height = d[0], width = d[1];
  int64_t sum = 0, squares = 0;
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* row = rows[y % 3];
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* p = image + 3 * (y * width + x);
      const int32_t n = 38 * p[0] + 76 * p[1] + 14 * p[2], up = (n + 64) >> 7;
      row[x] = (uint8_t)((n & 127) == 64 ? up & ~1 : up);
    }
    if (y < 2) continue;
    const uint8_t *above = rows[(y - 2) % 3], *own = rows[(y - 1) % 3];
    for (int64_t x = 1; x + 1 < width; ++x) {
      const int64_t n = above[x] + row[x] + own[x - 1] + own[x + 1] - 4 * own[x];
      sum += n;
      squares += n * n;
    }
  }
  const double count = (double)((height - 2) * (width - 2)), mean = (double)sum / count;
  *out = (float)((double)squares / count - mean * mean);
}

void plain_mean_std(const int64_t* d, const uint8_t* image, float* out) {
  int64_t sum = 0, squares = 0, least = 255, most = 0;
  const int64_t n = d[0] * d[1];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = image[i];
    sum += x;
    squares += x * x;
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
  const double mean = (double)sum / (double)n;
  out[0] = (float)mean;
  out[1] = (float)square_root((double)squares / (double)n - mean * mean);
  out[2] = (float)least;
  out[3] = (float)most;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Scratch: gray, blurred, gradients and marks, one behind the other.
void plain_canny(const int64_t* d, const uint8_t* image, uint8_t* scratch, uint8_t* out) {
  static uint16_t line[4096];
  const int64_t height = d[0], full = d[1];
  uint8_t *gray = scratch, *smooth = gray + height * full, *mark = smooth + height * full, *next = mark + height * full;
  int16_t *right = (int16_t*)(next + height * full), *down = right + height * full;
  for (int64_t i = 0; i < height * full; ++i) {
    const uint8_t* p = image + 3 * i;
    const int32_t n = 38 * p[0] + 76 * p[1] + 14 * p[2], up = (n + 64) >> 7;
    gray[i] = (uint8_t)((n & 127) == 64 ? up & ~1 : up);
  }
  blurred(height, full, gray, smooth, line);
  int64_t width = full - 4;
  for (int64_t y = 0; y + 2 < height - 4; ++y)
    for (int64_t x = 0; x + 2 < width; ++x) {
      const int32_t a = AT(smooth, y, x), b = AT(smooth, y, x + 1), c = AT(smooth, y, x + 2), e = AT(smooth, y + 1, x),
                    f = AT(smooth, y + 1, x + 2), g = AT(smooth, y + 2, x), h = AT(smooth, y + 2, x + 1),
                    i = AT(smooth, y + 2, x + 2);
      right[y * (full - 6) + x] = (int16_t)(c + 2 * f + i - a - 2 * e - g);
      down[y * (full - 6) + x] = (int16_t)(g + 2 * h + i - a - 2 * b - c);
    }
  width = full - 6;
  const int64_t rows = height - 8, columns = full - 8;
#define STRENGTH(y, x) (magnitude(AT(right, y, x)) + magnitude(AT(down, y, x)))
  for (int64_t y = 1; y <= rows; ++y)
    for (int64_t x = 1; x <= columns; ++x) {
      const int64_t gx = AT(right, y, x), gy = AT(down, y, x), ax = magnitude(gx), ay = magnitude(gy), m = ax + ay;
      uint8_t kind = 0;
      if (m > 60) {
        int64_t dy = 1, dx = gx * gy > 0 ? 1 : -1;
        if (8192 * ay < 3393 * ax) dy = 0, dx = 1;
        else if (8192 * ax < 3393 * ay) dy = 1, dx = 0;
        if (m > STRENGTH(y - dy, x - dx) && m >= STRENGTH(y + dy, x + dx)) kind = m > 120 ? 2 : 1;
      }
      mark[(y - 1) * columns + x - 1] = kind;
    }
  for (int64_t round = 0; round < 4; ++round) {
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x) {
        uint8_t kind = mark[y * columns + x];
        if (kind == 1)
          for (int64_t v = y ? y - 1 : 0; v <= y + 1 && v < rows; ++v)
            for (int64_t u = x ? x - 1 : 0; u <= x + 1 && u < columns; ++u)
              if (mark[v * columns + u] == 2) kind = 2;
        next[y * columns + x] = kind;
      }
    uint8_t* other = mark;
    mark = next;
    next = other;
  }
  for (int64_t i = 0; i < rows * columns; ++i) out[i] = mark[i] == 2 ? 255 : 0;
}

void plain_knn(const int64_t* d, const int8_t* query, const int8_t* data, int32_t* out) {
  int32_t best[5];
  int64_t kept = 0;
  for (int64_t i = 0; i < d[0]; ++i) {
    int32_t total = 0;
    for (int64_t k = 0; k < d[1]; ++k) {
      const int32_t apart = data[i * d[1] + k] - query[k];
      total += apart * apart;
    }
    if (kept == 5 && total >= best[4]) continue;
    int64_t at = kept < 5 ? kept++ : 4;
    for (; at > 0 && total < best[at - 1]; --at) best[at] = best[at - 1], out[at] = out[at - 1];
    best[at] = total;
    out[at] = (int32_t)i;
  }
}
