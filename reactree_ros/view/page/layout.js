// Places of a tree's nodes: parents above the middle of their children, subtrees as close as they go, no two overlap.

export const LEVEL = 104;
const WIDE = 148, NARROW = 56;

/** Return `{x, y}` for each of the nodes, which come with parents before children; `children(node)` are those shown. */
export function layout(nodes, children) {
  const shape = new Map(); // id → {offset: from the parent, left: [], right: []}; the edges level by level
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
  const found = { offset: 0, left: [-half], right: [half] };
  if (!below.length) return found;
  let left = [], right = [];
  const centres = [];
  for (const child of below) {
    const one = shape.get(child.id);
    let shift = 0;
    for (let level = 0; level < Math.min(right.length, one.left.length); level++) {
      shift = Math.max(shift, right[level] - one.left[level]);
    }
    if (!centres.length) {
      left = one.left.slice();
      right = one.right.slice();
    } else {
      for (let level = 0; level < one.right.length; level++) {
        if (level >= left.length) left.push(one.left[level] + shift);
        right[level] = one.right[level] + shift;
      }
    }
    centres.push(shift);
    one.left = one.right = null; // no longer wanted
  }
  const middle = (centres[0] + centres.at(-1)) / 2;
  below.forEach((child, number) => (shape.get(child.id).offset = centres[number] - middle));
  for (let level = 0; level < left.length; level++) {
    found.left.push(left[level] - middle);
    found.right.push(right[level] - middle);
  }
  return found;
}
