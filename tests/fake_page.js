// As much of a browser as the report's script asks for, for checks where there is no browser.
// Elements keep their text and children; plots are recorded instead of drawn.
class Element {
  constructor(tag) {
    this.tag = tag;
    this.children = [];
    this.attributes = {};
    this.listeners = {};
    this.style = {};
    this.dataset = {};
    this.hidden = false;
    this.checked = false;
    this.value = "";
    this.parentElement = null;
    this.isConnected = true;
    const own = new Set();
    this.classList = { toggle: (name, on) => (on ? own.add(name) : own.delete(name)), contains: (name) => own.has(name) };
  }
  set textContent(text) { this.children = [String(text)]; }
  get textContent() { return this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  set innerHTML(text) { throw new Error("HTML is never made from text"); }
  append(...items) {
    for (const item of items) {
      if (item instanceof Element) item.parentElement = this;
      this.children.push(item instanceof Element ? item : String(item));
    }
  }
  replaceChildren(...items) { this.children = []; this.append(...items); }
  remove() { this.parentElement.children = this.parentElement.children.filter((c) => c !== this); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return name in this.attributes ? this.attributes[name] : null; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(name, action) { (this.listeners[name] ||= []).push(action); }
  on(name, action) { this.addEventListener(name, action); }
  showModal() { this.open = true; }
  close() { this.open = false; }
  click() { this.fire("click"); }
  fire(name, event = {}) { for (const action of this.listeners[name] || []) action({ stopPropagation() {}, ...event }); }
  get tHead() { return this.children.find((c) => c.tag === "thead") || null; }
  get tBodies() { return this.children.filter((c) => c.tag === "tbody"); }
  all(test, found = []) {
    for (const child of this.children) {
      if (child instanceof Element) {
        if (test(child)) found.push(child);
        child.all(test, found);
      }
    }
    return found;
  }
  querySelector(selector) {
    const [tag, name] = selector.split(".");
    return this.all((e) => e.tag === tag && e.getAttribute("class") === name)[0] || null;
  }
}
const elements = {};
const plots = {};
var document = {
  body: new Element("body"),
  documentElement: new Element("html"),
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag),
  querySelectorAll: () => [],
  getElementById(id) {
    if (!IDS.includes(id)) throw new Error("the page has no element '" + id + "'");
    if (!elements[id]) {
      elements[id] = new Element("div");
      elements[id].parentElement = new Element("label");
    }
    return elements[id];
  },
};
var getComputedStyle = () => ({ getPropertyValue: () => "#123456", fontFamily: "sans" });
var location = { protocol: "https:", hash: "", pathname: "/report.html", search: "" };
var history = { replaceState(state, title, address) { location.hash = address.startsWith("#") ? address : ""; } };
var windowListeners = {};
var addEventListener = (name, action) => { (windowListeners[name] ||= []).push(action); };
var saved = [];
var URL = { createObjectURL: (blob) => { saved.push(blob); return "blob:"; }, revokeObjectURL() {} };
var setTimeout = () => {};
var matchMedia = () => ({ addEventListener() {} });
var navigator = {};
var ResizeObserver = class { observe() {} };
var Plotly = {
  react(element, traces, layout, config) {
    const id = Object.keys(elements).find((key) => elements[key] === element);
    plots[id] = JSON.parse(JSON.stringify({ traces, layout, config }));
    return Promise.resolve();
  },
  purge() {},
};
