//! Divides a diagram into levels: the root and each group are a level with their children and the
//! parts of edges in it.

use std::collections::HashMap;

use crate::diagram::{Diagram, LinkKind};
use crate::layered::closing_edges;

/// Maximum number of groups around a group.
const MAX_DEPTH: usize = 64;

/// The levels of a diagram. Level 0 is the root, level `g + 1` the group with index `g`.
#[derive(Debug)]
pub(crate) struct Nesting {
    pub(crate) levels: Vec<Level>,
    /// Level of each node, and its index among the children of the level.
    pub(crate) nodes: Vec<ChildPlace>,
    /// Level that contains each group, and its index among the children of the level.
    pub(crate) groups: Vec<ChildPlace>,
    /// Edges whose ends are known.
    pub(crate) edges: Vec<NestedEdge>,
    /// Levels, each after the level that contains it.
    pub(crate) outer_first: Vec<usize>,
}

/// A level and its index of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChildPlace {
    pub(crate) level: usize,
    pub(crate) index: usize,
}

/// A level of a diagram.
#[derive(Debug, Default)]
pub(crate) struct Level {
    /// Number of groups around its children.
    pub(crate) depth: usize,
    pub(crate) children: Vec<Child>,
    pub(crate) pieces: Vec<EdgePiece>,
}

/// A child of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Child {
    /// Node by its index in the diagram.
    Node(usize),
    /// Group by its index in the diagram.
    Group(usize),
    /// A point where edges enter the level.
    Entry(Port),
    /// A point where edges leave the level.
    Exit(Port),
}

/// The continuation of an edge outside of a level. `None` if the edge ends at the border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Port {
    pub(crate) outside: Option<PieceEnd>,
}

/// An end of a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PieceEnd {
    pub(crate) level: usize,
    pub(crate) piece: usize,
    /// `true` for the start in the direction of the layers.
    pub(crate) is_start: bool,
}

/// The part of an edge in one level, in the direction of the layers.
#[derive(Clone, Debug)]
pub(crate) struct EdgePiece {
    /// Index of the edge in [`Nesting::edges`].
    pub(crate) edge: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// `true` if the piece carries the label of the edge.
    pub(crate) has_label: bool,
    /// `true` if an edge of another kind or in the other direction connects the same children, so
    /// that this edge must not cover it.
    pub(crate) is_parallel: bool,
    /// Kind of the edge if edges of this kind from the same child may share their line.
    pub(crate) bundle: Option<u32>,
}

/// An edge and its pieces.
#[derive(Clone, Debug)]
pub(crate) struct NestedEdge {
    /// Index of the edge in the diagram.
    pub(crate) index: usize,
    /// Pieces in the order in which the layers run, by level and index.
    pub(crate) pieces: Vec<(usize, usize)>,
    /// `true` if the edge is drawn against the direction of the layers.
    pub(crate) is_backward: bool,
    /// The child, if the edge starts and ends at the same one.
    pub(crate) loop_at: Option<ChildPlace>,
}

impl Nesting {
    pub(crate) fn new(diagram: &Diagram) -> Self {
        let mut nesting = Self::without_edges(diagram);
        let places = nesting.places_by_id(diagram);
        // The ways from the root to both ends, in the order of the edges.
        let mut ways: Vec<(Vec<ChildPlace>, Vec<ChildPlace>)> = Vec::new();
        for (index, edge) in diagram.edges.iter().enumerate() {
            let ends = (places.get(edge.from.as_str()), places.get(edge.to.as_str()));
            let (Some(from), Some(to)) = ends else { continue };
            nesting.edges.push(NestedEdge {
                index,
                pieces: Vec::new(),
                is_backward: false,
                loop_at: (from == to).then_some(*from),
            });
            ways.push((nesting.way_to(*from), nesting.way_to(*to)));
        }
        nesting.find_backward_edges(&ways);
        for (edge, (from, to)) in ways.iter().enumerate() {
            if nesting.edges[edge].loop_at.is_none() {
                nesting.divide(diagram, edge, from, to);
            }
        }
        nesting.find_parallel_edges(diagram);
        nesting
    }

    /// Creates the levels with their children.
    fn without_edges(diagram: &Diagram) -> Self {
        let mut group_by_id: HashMap<&str, usize> = HashMap::new();
        for (index, group) in diagram.groups.iter().enumerate() {
            group_by_id.entry(&group.id).or_insert(index);
        }
        let parent_of =
            |id: &Option<String>| id.as_ref().and_then(|id| group_by_id.get(id.as_str())).copied();
        let declared: Vec<Option<usize>> =
            diagram.groups.iter().map(|group| parent_of(&group.group)).collect();
        let mut levels = vec![Level::default()];
        let mut groups = Vec::new();
        for group in 0..diagram.groups.len() {
            let mut depth = 0;
            let mut around = declared[group];
            while let Some(parent) = around.filter(|_| depth <= MAX_DEPTH) {
                depth += 1;
                around = declared[parent];
            }
            let (level, depth) = match declared[group] {
                Some(parent) if depth <= MAX_DEPTH => (parent + 1, depth),
                _ => (0, 0),
            };
            groups.push(ChildPlace { level, index: 0 });
            levels.push(Level { depth: depth + 1, ..Level::default() });
        }
        let mut nodes = Vec::new();
        for (index, node) in diagram.nodes.iter().enumerate() {
            let level = parent_of(&node.group).map_or(0, |group| group + 1);
            nodes.push(ChildPlace { level, index: levels[level].children.len() });
            levels[level].children.push(Child::Node(index));
        }
        for (index, group) in groups.iter_mut().enumerate() {
            group.index = levels[group.level].children.len();
            levels[group.level].children.push(Child::Group(index));
        }
        let mut outer_first: Vec<usize> = (0..levels.len()).collect();
        outer_first.sort_by_key(|level| levels[*level].depth);
        Self { levels, nodes, groups, edges: Vec::new(), outer_first }
    }

    fn places_by_id<'d>(&self, diagram: &'d Diagram) -> HashMap<&'d str, ChildPlace> {
        let mut places = HashMap::new();
        for (node, place) in diagram.nodes.iter().zip(&self.nodes) {
            places.entry(node.id.as_str()).or_insert(*place);
        }
        for (group, place) in diagram.groups.iter().zip(&self.groups) {
            places.entry(group.id.as_str()).or_insert(*place);
        }
        places
    }

    /// Returns the children that contain a child, from the root to the child itself.
    fn way_to(&self, place: ChildPlace) -> Vec<ChildPlace> {
        let mut way = vec![place];
        let mut level = place.level;
        while level > 0 {
            let group = self.groups[level - 1];
            way.push(group);
            level = group.level;
        }
        way.reverse();
        way
    }

    /// Finds the edges that close a cycle in the level that contains both of their ends.
    fn find_backward_edges(&mut self, ways: &[(Vec<ChildPlace>, Vec<ChildPlace>)]) {
        let mut of_levels: Vec<Vec<(usize, (usize, usize))>> = vec![Vec::new(); self.levels.len()];
        for (edge, (from, to)) in ways.iter().enumerate() {
            if let Some(at) = meeting(from, to) {
                of_levels[from[at].level].push((edge, (from[at].index, to[at].index)));
            }
        }
        for (level, edges) in of_levels.iter().enumerate() {
            let ends: Vec<(usize, usize)> = edges.iter().map(|(_, ends)| *ends).collect();
            let closing = closing_edges(self.levels[level].children.len(), &ends);
            for ((edge, _), is_closing) in edges.iter().zip(closing) {
                self.edges[*edge].is_backward = is_closing;
            }
        }
    }

    /// Divides an edge at the borders of groups.
    fn divide(&mut self, diagram: &Diagram, edge: usize, from: &[ChildPlace], to: &[ChildPlace]) {
        let is_backward = self.edges[edge].is_backward;
        let (first, last) = if is_backward { (to, from) } else { (from, to) };
        let shown = &diagram.edges[self.edges[edge].index];
        let has_label = shown.label.as_ref().is_some_and(|label| !label.trim().is_empty());
        let bundle = bundle_of(shown.kind, is_backward);
        let piece = |from: usize, to: usize| EdgePiece {
            edge,
            from,
            to,
            has_label: false,
            is_parallel: false,
            bundle: None,
        };
        let mut pieces = Vec::new();
        let shared = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        let mut ends = (None, None);
        if let Some(at) = meeting(first, last) {
            let level = first[at].level;
            let mut middle = piece(first[at].index, last[at].index);
            middle.has_label = has_label;
            middle.bundle = (!has_label && first.len() == at + 1).then_some(bundle);
            let index = self.add_piece(level, middle);
            pieces.push((level, index));
            let end = |is_start| Some(PieceEnd { level, piece: index, is_start });
            ends = (end(true), end(false));
        }
        let depth = if ends.0.is_some() { shared + 1 } else { shared };
        // From the meeting level inwards: each piece leads to a point at the border of its level.
        let mut outside = ends.0;
        for place in first.iter().skip(depth) {
            let port = self.add_child(place.level, Child::Exit(Port { outside }));
            let index = self.add_piece(place.level, piece(place.index, port));
            pieces.insert(0, (place.level, index));
            outside = Some(PieceEnd { level: place.level, piece: index, is_start: true });
        }
        let mut outside = ends.1;
        for place in last.iter().skip(depth) {
            let port = self.add_child(place.level, Child::Entry(Port { outside }));
            let index = self.add_piece(place.level, piece(port, place.index));
            pieces.push((place.level, index));
            outside = Some(PieceEnd { level: place.level, piece: index, is_start: false });
        }
        self.edges[edge].pieces = pieces;
    }

    fn add_piece(&mut self, level: usize, piece: EdgePiece) -> usize {
        self.levels[level].pieces.push(piece);
        self.levels[level].pieces.len() - 1
    }

    fn add_child(&mut self, level: usize, child: Child) -> usize {
        self.levels[level].children.push(child);
        self.levels[level].children.len() - 1
    }

    /// Finds edges without a label that connect the same children as an edge of another kind or in
    /// the other direction.
    fn find_parallel_edges(&mut self, diagram: &Diagram) {
        for level in &mut self.levels {
            let mut lines: HashMap<(usize, usize), (LinkKind, bool)> = HashMap::new();
            for piece in level.pieces.iter_mut().filter(|piece| !piece.has_label) {
                let edge = &self.edges[piece.edge];
                let line = (diagram.edges[edge.index].kind, edge.is_backward);
                let first = *lines.entry((piece.from, piece.to)).or_insert(line);
                if first != line {
                    piece.is_parallel = true;
                    piece.bundle = None;
                }
            }
        }
    }
}

/// Returns the position at which two ways from the root separate. `None` if one end contains the
/// other.
fn meeting(from: &[ChildPlace], to: &[ChildPlace]) -> Option<usize> {
    from.iter().zip(to).position(|(one, other)| one != other)
}

/// Returns a number for edges that may share a line.
fn bundle_of(kind: LinkKind, is_backward: bool) -> u32 {
    kind as u32 * 2 + u32::from(is_backward)
}
