//! Assigns positions along the cross axis, after U. Brandes and B. Köpf, "Fast and Simple Horizontal
//! Coordinate Assignment" (2001).
//!
//! Vertices are aligned with their median neighbours in blocks, which are packed as closely as the
//! order permits. This is done from both ends of the layers and from both ends of each layer, and
//! the four results are averaged. The links between two points of an edge have precedence, so that
//! long edges are straight.

use super::Spacing;
use super::vertices::Vertices;

/// Returns the middle of each vertex along the cross axis.
pub(super) fn cross_positions(
    vertices: &Vertices,
    layers: &[Vec<usize>],
    spacing: Spacing,
) -> Vec<f64> {
    let is_conflict = conflicts(vertices, layers);
    let mut results: Vec<(Vec<f64>, bool)> = Vec::new();
    for is_backward in [false, true] {
        for is_reversed in [false, true] {
            let pass = Pass::new(vertices, layers, spacing, is_backward, is_reversed);
            let mut positions = pass.positions(&is_conflict);
            if is_reversed {
                positions.iter_mut().for_each(|position| *position = -*position);
            }
            results.push((positions, is_reversed));
        }
    }
    // The narrowest result determines where the others are placed.
    let extents: Vec<(f64, f64)> =
        results.iter().map(|(positions, _)| extent(vertices, positions)).collect();
    let mut narrowest = extents[0];
    for extent in &extents {
        if extent.1 - extent.0 < narrowest.1 - narrowest.0 {
            narrowest = *extent;
        }
    }
    for ((positions, is_reversed), extent) in results.iter_mut().zip(&extents) {
        let by = if *is_reversed { narrowest.1 - extent.1 } else { narrowest.0 - extent.0 };
        positions.iter_mut().for_each(|position| *position += by);
    }
    let mut middle = Vec::with_capacity(vertices.all.len());
    for vertex in 0..vertices.all.len() {
        let mut four = [0, 1, 2, 3].map(|result: usize| results[result].0[vertex]);
        four.sort_by(f64::total_cmp);
        middle.push(((four[1] + four[2]) / 2.0).round());
    }
    middle
}

/// Returns the lowest and the highest position of all vertices, with their sizes.
pub(super) fn extent(vertices: &Vertices, positions: &[f64]) -> (f64, f64) {
    let mut extent = (f64::INFINITY, f64::NEG_INFINITY);
    for (vertex, position) in vertices.all.iter().zip(positions) {
        extent.0 = extent.0.min(position - vertex.cross / 2.0);
        extent.1 = extent.1.max(position + vertex.cross / 2.0);
    }
    extent
}

/// Returns for each link `true` if it crosses a link between two points of an edge, so that it must
/// not be straight.
fn conflicts(vertices: &Vertices, layers: &[Vec<usize>]) -> Vec<bool> {
    let mut is_conflict = vec![false; vertices.links.len()];
    let mut place = vec![0; vertices.all.len()];
    for layer in layers {
        for (index, vertex) in layer.iter().enumerate() {
            place[*vertex] = index;
        }
    }
    for pair in layers.windows(2) {
        let [before, layer] = pair else { continue };
        let (mut lowest, mut next) = (0, 0);
        for (index, vertex) in layer.iter().enumerate() {
            let inner = vertices.all[*vertex]
                .entering
                .iter()
                .map(|link| vertices.links[*link].from)
                .find(|from| !vertices.all[*vertex].is_box && !vertices.all[*from].is_box);
            let highest = match inner {
                Some(from) => place[from],
                None if index + 1 == layer.len() => before.len(),
                None => continue,
            };
            for other in &layer[next..=index] {
                for link in &vertices.all[*other].entering {
                    let from = place[vertices.links[*link].from];
                    is_conflict[*link] |= from < lowest || from > highest;
                }
            }
            next = index + 1;
            lowest = highest;
        }
    }
    is_conflict
}

/// State of one alignment.
struct Pass<'v> {
    vertices: &'v Vertices,
    /// Layers in the order of this pass, with the vertices in the order of this pass.
    layers: Vec<Vec<usize>>,
    place: Vec<usize>,
    spacing: Spacing,
    /// `true` if the alignment begins with the last layer.
    is_backward: bool,
    /// -1 if the cross axis is reversed.
    sign: f64,
}

impl<'v> Pass<'v> {
    fn new(
        vertices: &'v Vertices,
        layers: &[Vec<usize>],
        spacing: Spacing,
        is_backward: bool,
        is_reversed: bool,
    ) -> Self {
        let mut layers = layers.to_vec();
        if is_backward {
            layers.reverse();
        }
        if is_reversed {
            layers.iter_mut().for_each(|layer| layer.reverse());
        }
        let mut place = vec![0; vertices.all.len()];
        for layer in &layers {
            for (index, vertex) in layer.iter().enumerate() {
                place[*vertex] = index;
            }
        }
        let sign = if is_reversed { -1.0 } else { 1.0 };
        Self { vertices, layers, place, spacing, is_backward, sign }
    }

    fn positions(&self, is_conflict: &[bool]) -> Vec<f64> {
        let (root, shift) = self.blocks(is_conflict);
        let of_roots = self.packed(&root, &shift);
        (0..root.len()).map(|vertex| of_roots[root[vertex]] + shift[vertex]).collect()
    }

    /// Aligns each vertex with one of the median neighbours in the layer before. Returns the first
    /// vertex of each block, and the distance of each vertex from the first one of its block.
    fn blocks(&self, is_conflict: &[bool]) -> (Vec<usize>, Vec<f64>) {
        let count = self.vertices.all.len();
        let mut root: Vec<usize> = (0..count).collect();
        let mut shift = vec![0.0; count];
        let mut neighbours: Vec<(usize, f64, usize, usize)> = Vec::new();
        for layer in self.layers.iter().skip(1) {
            // First place in the layer before that is still free. Alignments must not cross.
            let mut free = 0;
            for &vertex in layer {
                neighbours.clear();
                let of_vertex = &self.vertices.all[vertex];
                let links = if self.is_backward { &of_vertex.leaving } else { &of_vertex.entering };
                for &link in links {
                    let data = &self.vertices.links[link];
                    let (other, other_shift) = if self.is_backward {
                        (data.to, data.to_shift)
                    } else {
                        (data.from, data.from_shift)
                    };
                    neighbours.push((self.place[other], self.sign * other_shift, other, link));
                }
                neighbours.sort_by(|one, two| one.0.cmp(&two.0).then(one.1.total_cmp(&two.1)));
                if neighbours.is_empty() {
                    continue;
                }
                let last = neighbours.len() - 1;
                for &(place, _, other, link) in &neighbours[last / 2..=last.div_ceil(2)] {
                    if is_conflict[link] || place < free {
                        continue;
                    }
                    let data = &self.vertices.links[link];
                    let by = if self.is_backward {
                        data.to_shift - data.from_shift
                    } else {
                        data.from_shift - data.to_shift
                    };
                    root[vertex] = root[other];
                    shift[vertex] = shift[other] + self.sign * by;
                    free = place + 1;
                    break;
                }
            }
        }
        (root, shift)
    }

    /// Packs the blocks towards the start of the cross axis, then moves each towards its next
    /// neighbour. Returns the positions of the first vertices of the blocks.
    fn packed(&self, root: &[usize], shift: &[f64]) -> Vec<f64> {
        let count = root.len();
        let mut after: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
        let mut open = vec![0_usize; count];
        for layer in &self.layers {
            for pair in layer.windows(2) {
                let [first, second] = *pair else { continue };
                let distance = self.distance(first, second) + shift[first] - shift[second];
                after[root[first]].push((root[second], distance));
                open[root[second]] += 1;
            }
        }
        let mut order: Vec<usize> =
            (0..count).filter(|vertex| root[*vertex] == *vertex && open[*vertex] == 0).collect();
        let mut next = 0;
        let mut positions = vec![0.0_f64; count];
        while let Some(&block) = order.get(next) {
            next += 1;
            for &(other, distance) in &after[block] {
                positions[other] = positions[other].max(positions[block] + distance);
                open[other] -= 1;
                if open[other] == 0 {
                    order.push(other);
                }
            }
        }
        for &block in order.iter().rev() {
            let limit = after[block]
                .iter()
                .map(|(other, distance)| positions[*other] - distance)
                .fold(f64::INFINITY, f64::min);
            if limit.is_finite() {
                positions[block] = positions[block].max(limit);
            }
        }
        positions
    }

    /// Returns the smallest distance between the middles of two neighbours.
    fn distance(&self, first: usize, second: usize) -> f64 {
        let (first, second) = (&self.vertices.all[first], &self.vertices.all[second]);
        let gap = match (first.is_box, second.is_box) {
            (true, true) => self.spacing.boxes,
            (false, false) => self.spacing.lines,
            _ => (self.spacing.boxes + self.spacing.lines) / 2.0,
        };
        (first.cross + second.cross) / 2.0 + gap
    }
}
