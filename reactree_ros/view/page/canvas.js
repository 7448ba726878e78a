// A canvas as dense as the screen, painted again after each change of its size or of the colour scheme.

export class Canvas {
  /** `paint(on, { width, height, colour })` is called before the next frame, whatever asked for it. */
  constructor(element, paint) {
    [this._element, this._paint] = [element, paint];
    new ResizeObserver(() => this.ask()).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.ask());
  }

  ask() {
    this._asked ??= requestAnimationFrame(() => {
      this._asked = null;
      const { clientWidth: width, clientHeight: height } = this._element;
      const dense = devicePixelRatio || 1;
      [this._element.width, this._element.height] = [Math.round(width * dense), Math.round(height * dense)];
      const on = this._element.getContext("2d");
      on.scale(dense, dense);
      const style = getComputedStyle(this._element);
      this._paint(on, { width, height, colour: (name) => style.getPropertyValue(`--${name}`) });
    });
  }
}
