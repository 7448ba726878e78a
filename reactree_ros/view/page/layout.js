// Places of a tree's nodes: parents above the middle of their children, subtrees close together without overlap.

export const LEVEL = 104;
const WIDE = 148, NARROW = 56;

/** Return `{x, y}` for each node. Parents come before children; `children(node)` returns the visible ones. */
export function layout(nodes, children) {
  const shape = new Map(); // id → {offset: from the parent, left, right: edges of the subtree}
  for (let i = nodes.length - 1; i >= 0; i--) shape.set(nodes[i].id, placed(nodes[i], children(nodes[i]), shape));
  const places = new Map();
  for (const node of nodes) {
    const above = places.get(node.parent);
    const x = above ? above.x + shape.get(node.id).offset : 0;
    places.set(node.id, { x, y: above ? above.y + LEVEL : 0 });
  }
  return places;
}

function placed(node, below, shape) {
  const half = (node.isFlow ? NARROW : WIDE) / 2;
  let left = new Edge(), right = new Edge();
  const centres = [];
  for (const child of below) {
    const one = shape.get(child.id);
    let shift = 0;
    for (let level = 0; level < Math.min(right.length, one.left.length); level++) {
      shift = Math.max(shift, right.at(level) - one.left.at(level));
    }
    one.left.moved += shift;
    one.right.moved += shift;
    left = left.before(one.left);
    right = one.right.before(right);
    centres.push(shift);
  }
  const middle = below.length ? (centres[0] + centres.at(-1)) / 2 : 0;
  below.forEach((child, number) => (shape.get(child.id).offset = centres[number] - middle));
  left.moved -= middle;
  right.moved -= middle;
  left.rise(-half);
  right.rise(half);
  return { offset: 0, left, right };
}

/** An edge of a subtree, level by level; the parent reuses it in place, so that a deep tree costs no more. */
class Edge {
  constructor() {
    this._upwards = []; // the deepest level first, relative to a common shift
    this.moved = 0;
  }

  get length() {
    return this._upwards.length;
  }

  at(level) {
    return this._upwards[this.length - 1 - level] + this.moved;
  }

  rise(x) {
    this._upwards.push(x - this.moved);
  }

  /** Return this edge, continued below by another one; both are consumed. */
  before(other) {
    if (this.length >= other.length) return this;
    for (let level = 0; level < this.length; level++) other._upwards[other.length - 1 - level] = this.at(level) - other.moved;
    return other;
  }
}
