"""Integer operators, a family a file: what each computes, touches, is called in C and costs on the host core."""
