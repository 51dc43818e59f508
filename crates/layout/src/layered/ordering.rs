//! Orders the vertices within their layers so that few links cross.

use super::crossings::{count_crossings, crossings_of_neighbours};
use super::vertices::Vertices;

/// Number of sweeps without an improvement after which the search ends. A longer search finds a few
/// crossings less, and moves more nodes when a diagram changes a little.
const PATIENCE: usize = 1;

/// Returns the vertices of each layer in their order along the cross axis.
pub(super) fn ordered_layers(vertices: &Vertices) -> Vec<Vec<usize>> {
    let mut order = LayerOrder::new(vertices);
    let mut best = order.layers.clone();
    let mut fewest = order.crossings();
    // Large graphs get fewer sweeps, so that the time stays proportional to the size.
    let sweeps = (400_000 / (vertices.links.len() + 1)).clamp(4, 24);
    let mut without_improvement = 0;
    for sweep in 0..sweeps {
        if fewest == 0 || without_improvement == PATIENCE {
            break;
        }
        order.sweep(sweep % 2 == 0);
        order.exchange_neighbours();
        let crossings = order.crossings();
        if crossings < fewest {
            fewest = crossings;
            best.clone_from(&order.layers);
            without_improvement = 0;
        } else {
            without_improvement += 1;
        }
    }
    best
}

struct LayerOrder<'v> {
    vertices: &'v Vertices,
    layers: Vec<Vec<usize>>,
    /// Place of each vertex in its layer.
    place: Vec<usize>,
}

impl<'v> LayerOrder<'v> {
    /// Orders the vertices as a depth-first search from the first nodes reaches them. A tree has no
    /// crossings then, and the successors of a node have the order of its edges.
    fn new(vertices: &'v Vertices) -> Self {
        let mut layers = vec![Vec::new(); vertices.layers];
        let mut place = vec![0; vertices.all.len()];
        let mut seen = vec![false; vertices.all.len()];
        let mut starts: Vec<usize> = (0..vertices.all.len()).collect();
        starts.sort_by_key(|vertex| vertices.all[*vertex].layer);
        let mut open = Vec::new();
        for start in starts {
            open.push(start);
            while let Some(vertex) = open.pop() {
                if seen[vertex] {
                    continue;
                }
                seen[vertex] = true;
                let layer: &mut Vec<usize> = &mut layers[vertices.all[vertex].layer];
                place[vertex] = layer.len();
                layer.push(vertex);
                let leaving = vertices.all[vertex].leaving.iter().rev();
                open.extend(leaving.map(|link| vertices.links[*link].to));
            }
        }
        Self { vertices, layers, place }
    }

    /// Returns the number of crossings between all layers.
    fn crossings(&self) -> u64 {
        let mut total = 0;
        let mut ends = Vec::new();
        for layer in &self.layers {
            ends.clear();
            for vertex in layer {
                for link in &self.vertices.all[*vertex].leaving {
                    ends.push((self.start_of(*link), self.end_of(*link)));
                }
            }
            total += count_crossings(&mut ends);
        }
        total
    }

    /// Returns a number that orders the starts of links in a layer.
    fn start_of(&self, link: usize) -> u64 {
        let link = &self.vertices.links[link];
        ((self.place[link.from] as u64) << 32) | link.from_rank as u64
    }

    /// Returns a number that orders the ends of links in a layer.
    fn end_of(&self, link: usize) -> u64 {
        let link = &self.vertices.links[link];
        ((self.place[link.to] as u64) << 32) | link.to_rank as u64
    }

    /// Sorts each layer by the mean place of the neighbours in the layer before it, or in the layer
    /// after it. Vertices without such neighbours keep their place.
    fn sweep(&mut self, is_forward: bool) {
        let count = self.layers.len();
        for step in 1..count {
            let at = if is_forward { step } else { count - 1 - step };
            let mut sorted: Vec<(f64, usize)> = Vec::new();
            for &vertex in &self.layers[at] {
                if let Some(mean) = self.mean_place(vertex, is_forward) {
                    sorted.push((mean, vertex));
                }
            }
            sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
            let mut sorted = sorted.into_iter();
            for index in 0..self.layers[at].len() {
                let vertex = self.layers[at][index];
                let has_neighbours = if is_forward {
                    !self.vertices.all[vertex].entering.is_empty()
                } else {
                    !self.vertices.all[vertex].leaving.is_empty()
                };
                if has_neighbours && let Some((_, next)) = sorted.next() {
                    self.layers[at][index] = next;
                }
            }
            for (index, vertex) in self.layers[at].iter().enumerate() {
                self.place[*vertex] = index;
            }
        }
    }

    fn mean_place(&self, vertex: usize, is_forward: bool) -> Option<f64> {
        let vertex = &self.vertices.all[vertex];
        let links = if is_forward { &vertex.entering } else { &vertex.leaving };
        let mut sum = 0.0;
        for link in links {
            let link = &self.vertices.links[*link];
            let (neighbour, shift) =
                if is_forward { (link.from, link.from_shift) } else { (link.to, link.to_shift) };
            // A place on the side of a large group counts in part.
            let size = self.vertices.all[neighbour].cross.max(1.0);
            sum += self.place[neighbour] as f64 + (shift / size).clamp(-0.49, 0.49);
        }
        (!links.is_empty()).then(|| sum / links.len() as f64)
    }

    /// Exchanges neighbours while that removes crossings.
    fn exchange_neighbours(&mut self) {
        for _ in 0..4 {
            let mut is_changed = false;
            for at in 0..self.layers.len() {
                for index in 1..self.layers[at].len() {
                    let (first, second) = (self.layers[at][index - 1], self.layers[at][index]);
                    if self.is_better_exchanged(first, second) {
                        self.layers[at].swap(index - 1, index);
                        self.place.swap(first, second);
                        is_changed = true;
                    }
                }
            }
            if !is_changed {
                break;
            }
        }
    }

    fn is_better_exchanged(&self, first: usize, second: usize) -> bool {
        let (mut as_is, mut exchanged) = (0, 0);
        for is_entering in [true, false] {
            let ends = |vertex: usize| {
                let vertex = &self.vertices.all[vertex];
                let mut ends: Vec<u64> = if is_entering {
                    vertex.entering.iter().map(|link| self.start_of(*link)).collect()
                } else {
                    vertex.leaving.iter().map(|link| self.end_of(*link)).collect()
                };
                ends.sort_unstable();
                ends
            };
            let counts = crossings_of_neighbours(&ends(first), &ends(second));
            as_is += counts.0;
            exchanged += counts.1;
        }
        exchanged < as_is
    }
}
