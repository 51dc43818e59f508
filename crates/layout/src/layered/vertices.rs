//! Divides the edges of a component at each layer, so that every link leads to the next layer.

use std::collections::HashMap;

use super::{LevelEdge, LevelNode, LevelRole};

/// The boxes of a component and the points at which edges pass a layer.
#[derive(Debug, Default)]
pub(super) struct Vertices {
    /// Vertices. The first ones are the boxes.
    pub(super) all: Vec<Vertex>,
    /// Links between vertices of neighbouring layers.
    pub(super) links: Vec<VertexLink>,
    /// Number of layers.
    pub(super) layers: usize,
    /// Way of each edge.
    pub(super) paths: Vec<EdgePath>,
}

/// A box or a point of an edge.
#[derive(Clone, Debug, Default)]
pub(super) struct Vertex {
    pub(super) layer: usize,
    /// Size along the main axis.
    pub(super) main: f64,
    /// Size along the cross axis.
    pub(super) cross: f64,
    /// `true` for a node or a group, `false` for a point of an edge.
    pub(super) is_box: bool,
    /// Indexes of the links from the layer before.
    pub(super) entering: Vec<usize>,
    /// Indexes of the links to the next layer.
    pub(super) leaving: Vec<usize>,
}

/// A part of an edge between two layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct VertexLink {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Distance from the middle of the first vertex along the cross axis.
    pub(super) from_shift: f64,
    /// Distance from the middle of the second vertex along the cross axis.
    pub(super) to_shift: f64,
    /// Rank of the start among the different starts of links from the vertex.
    pub(super) from_rank: usize,
    /// Rank of the end among the different ends of links to the vertex.
    pub(super) to_rank: usize,
}

/// The way of an edge from layer to layer.
#[derive(Clone, Debug, Default)]
pub(super) struct EdgePath {
    /// Points between the first and the last box, in consecutive layers.
    pub(super) points: Vec<usize>,
    /// Point that carries the label.
    pub(super) label: Option<usize>,
    /// `true` if the edge passes the layers after its points outside of all boxes.
    pub(super) is_outside: bool,
}

impl Vertices {
    /// Creates the vertices and links of a component.
    ///
    /// Edges of a bundle share points. The number of points is limited to a multiple of the size of
    /// the component: beyond it, the longest edges are led around the boxes.
    pub(super) fn new(nodes: &[LevelNode], edges: &[LevelEdge], layers: &[usize]) -> Self {
        let mut vertices = Self {
            layers: layers.iter().max().map_or(0, |last| last + 1),
            paths: vec![EdgePath::default(); edges.len()],
            ..Self::default()
        };
        for (node, layer) in nodes.iter().zip(layers) {
            vertices.all.push(Vertex {
                layer: *layer,
                main: node.reserved,
                cross: node.cross,
                is_box: node.role == LevelRole::Box,
                ..Vertex::default()
            });
        }
        let limit = nodes.len() + 6 * (nodes.len() + edges.len()) + 4000;
        let is_outside = edges_outside(edges, layers, limit);
        let mut bundles: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
        for (index, edge) in edges.iter().enumerate() {
            vertices.add_edge(index, edge, is_outside[index], &mut bundles);
        }
        vertices.rank_ends();
        vertices
    }

    fn add_edge(
        &mut self,
        index: usize,
        edge: &LevelEdge,
        is_outside: bool,
        bundles: &mut HashMap<(usize, u32), Vec<usize>>,
    ) {
        let (first, last) = (self.all[edge.from].layer, self.all[edge.to].layer);
        let count = if is_outside { usize::from(edge.label.is_some()) } else { last - first - 1 };
        let labelled = edge
            .label
            .map(|_| if edge.is_label_at_end && !is_outside { count.saturating_sub(1) } else { 0 });
        let mut points = match edge.bundle {
            Some(bundle) => bundles.remove(&(edge.from, bundle)).unwrap_or_default(),
            None => Vec::new(),
        };
        while points.len() < count {
            let (main, cross) =
                edge.label.filter(|_| labelled == Some(points.len())).unwrap_or_default();
            let point = self.all.len();
            let layer = first + 1 + points.len();
            self.all.push(Vertex { layer, main, cross, ..Vertex::default() });
            match points.last() {
                Some(before) => self.link(*before, point, 0.0, 0.0),
                None => self.link(edge.from, point, edge.from_shift, 0.0),
            }
            points.push(point);
        }
        if !is_outside {
            match points[..count].last() {
                Some(before) => self.link(*before, edge.to, 0.0, edge.to_shift),
                None => self.link(edge.from, edge.to, edge.from_shift, edge.to_shift),
            }
        }
        self.paths[index] = EdgePath {
            points: points[..count].to_vec(),
            label: labelled.map(|at| points[at]),
            is_outside,
        };
        if let Some(bundle) = edge.bundle {
            bundles.insert((edge.from, bundle), points);
        }
    }

    fn link(&mut self, from: usize, to: usize, from_shift: f64, to_shift: f64) {
        let link = self.links.len();
        self.links.push(VertexLink { from, to, from_shift, to_shift, from_rank: 0, to_rank: 0 });
        self.all[from].leaving.push(link);
        self.all[to].entering.push(link);
    }

    /// Ranks the places at which links touch a box, along the cross axis.
    fn rank_ends(&mut self) {
        for vertex in &self.all {
            let ranks = ranks_of(vertex.leaving.iter().map(|link| self.links[*link].from_shift));
            for (link, rank) in vertex.leaving.iter().zip(ranks) {
                self.links[*link].from_rank = rank;
            }
            let ranks = ranks_of(vertex.entering.iter().map(|link| self.links[*link].to_shift));
            for (link, rank) in vertex.entering.iter().zip(ranks) {
                self.links[*link].to_rank = rank;
            }
        }
    }
}

/// Returns for each value the number of different smaller values.
fn ranks_of(values: impl Iterator<Item = f64> + Clone) -> Vec<usize> {
    let mut sorted: Vec<f64> = values.clone().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    values.map(|value| sorted.partition_point(|other| other.total_cmp(&value).is_lt())).collect()
}

/// Returns the edges that are led around the boxes, because the points of all edges would exceed
/// the limit.
fn edges_outside(edges: &[LevelEdge], layers: &[usize], limit: usize) -> Vec<bool> {
    let points = |edge: &LevelEdge| layers[edge.to] - layers[edge.from] - 1;
    let mut by_length: Vec<usize> = (0..edges.len()).collect();
    by_length.sort_by_key(|edge| points(&edges[*edge]));
    let mut bundles: HashMap<(usize, u32), usize> = HashMap::new();
    let mut total = 0;
    let mut outside = vec![false; edges.len()];
    for index in by_length {
        let edge = &edges[index];
        let mut more = points(edge);
        if let Some(bundle) = edge.bundle {
            let shared = bundles.entry((edge.from, bundle)).or_default();
            more = more.saturating_sub(*shared);
            *shared += more;
        }
        total += more;
        outside[index] = total > limit && points(edge) > 0;
    }
    outside
}
