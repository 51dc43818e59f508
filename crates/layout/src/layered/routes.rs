//! Places layers along the main axis and leads the edges through them.

use super::alignment::extent;
use super::vertices::{EdgePath, Vertices};
use super::{EdgeRoute, LevelEdge, LevelNode, LevelRole, Spacing, Station};

/// Share of the distance along the cross axis by which the space between layers grows, so that long
/// bends are not too steep.
const SLOPE: f64 = 0.12;
/// Largest distance between layers.
const WIDEST_GAP: f64 = 160.0;

/// A component with the positions of its boxes, starting at 0 on both axes.
#[derive(Debug, Default)]
pub(super) struct PlacedComponent {
    pub(super) main: f64,
    pub(super) cross: f64,
    /// Start of each box on both axes.
    pub(super) starts: Vec<(f64, f64)>,
    pub(super) routes: Vec<EdgeRoute>,
}

impl PlacedComponent {
    /// Computes the positions from the middles of the vertices along the cross axis.
    pub(super) fn new(
        nodes: &[LevelNode],
        edges: &[LevelEdge],
        vertices: &Vertices,
        mut middles: Vec<f64>,
        spacing: Spacing,
    ) -> Self {
        let (mut low, high) = extent(vertices, &middles);
        let has_outside = vertices.paths.iter().any(|path| path.is_outside);
        if has_outside {
            low -= spacing.boxes;
        }
        middles.iter_mut().for_each(|middle| *middle -= low);
        let columns = columns(vertices, &middles, spacing);
        let mut starts = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let column = &columns[vertices.all[index].layer];
            let main = if node.role == LevelRole::Exit { column.end } else { column.start };
            starts.push((main, middles[index] - node.cross / 2.0));
        }
        let mut routes = Vec::new();
        for (edge, path) in edges.iter().zip(&vertices.paths) {
            routes.push(route(edge, path, nodes, vertices, &middles, &columns));
        }
        let main = columns.last().map_or(0.0, |column| column.end);
        Self { main, cross: high - low, starts, routes }
    }
}

/// The extent of a layer along the main axis.
struct Column {
    start: f64,
    end: f64,
}

/// Places the layers. The space between two layers grows with the longest bend in it.
fn columns(vertices: &Vertices, middles: &[f64], spacing: Spacing) -> Vec<Column> {
    let mut sizes = vec![0.0_f64; vertices.layers];
    let mut bends = vec![0.0_f64; vertices.layers];
    for vertex in &vertices.all {
        sizes[vertex.layer] = sizes[vertex.layer].max(vertex.main);
    }
    for link in &vertices.links {
        let from = middles[link.from] + link.from_shift;
        let bend = (middles[link.to] + link.to_shift - from).abs();
        let layer = vertices.all[link.from].layer;
        bends[layer] = bends[layer].max(bend);
    }
    let mut columns = Vec::new();
    let mut start = 0.0;
    for (layer, size) in sizes.iter().enumerate() {
        columns.push(Column { start, end: start + size });
        // A layer of points alone needs no space for arrows on both sides.
        let is_thin = *size == 0.0 || sizes.get(layer + 1) == Some(&0.0);
        let gap = if is_thin { spacing.layers / 2.0 } else { spacing.layers };
        start += size + (bends[layer] * SLOPE).round().clamp(gap, WIDEST_GAP);
    }
    columns
}

fn route(
    edge: &LevelEdge,
    path: &EdgePath,
    nodes: &[LevelNode],
    vertices: &Vertices,
    middles: &[f64],
    columns: &[Column],
) -> EdgeRoute {
    let (first, last) = (vertices.all[edge.from].layer, vertices.all[edge.to].layer);
    let mut stations = Vec::new();
    let start = match nodes[edge.from].role {
        LevelRole::Box => columns[first].start + nodes[edge.from].main,
        _ => columns[first].start,
    };
    let cross = middles[edge.from] + edge.from_shift;
    stations.push(Station { start, end: columns[first].end, cross });
    for point in &path.points {
        let column = &columns[vertices.all[*point].layer];
        stations.push(Station { start: column.start, end: column.end, cross: middles[*point] });
    }
    let label = path.label.map(|point| {
        let column = &columns[vertices.all[point].layer];
        ((column.start + column.end) / 2.0, middles[point])
    });
    if path.is_outside && first + path.points.len() + 1 < last {
        let next = first + path.points.len() + 1;
        stations.push(Station {
            start: columns[next].start,
            end: columns[last - 1].end,
            cross: 0.0,
        });
    }
    let end = match nodes[edge.to].role {
        LevelRole::Exit => columns[last].end,
        _ => columns[last].start,
    };
    let cross = middles[edge.to] + edge.to_shift;
    stations.push(Station { start: columns[last].start, end, cross });
    EdgeRoute { stations, label }
}
