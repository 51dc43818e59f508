//! Computes the layout of a diagram: each level from the innermost to the outermost, then the
//! positions in the whole picture.

use crate::curve::Curve;
use crate::diagram::{Diagram, LayoutDirection, LayoutOptions};
use crate::label_size::{LabelBox, TITLE_HEIGHT, edge_label, to_even};
use crate::layered::{LevelEdge, LevelGraph, LevelLayout, LevelNode, LevelRole, Spacing, Station};
use crate::nesting::{Child, ChildPlace, Level, NestedEdge, Nesting, Port};
use crate::placed::{
    Area, DiagramLayout, DiagramPoint, PlacedEdge, PlacedGroup, PlacedLabel, PlacedNode, PlacedText,
};

/// Margin around the picture.
const MARGIN: f64 = 12.0;
/// Distance of the content of a group from its border.
const GROUP_PADDING: f64 = 16.0;
/// Space for an edge that leads back to its start.
const LOOP_SPACE: f64 = 24.0;
/// Width that a second edge between the same boxes keeps free.
const PARALLEL_SPACE: f64 = 10.0;

impl Diagram {
    /// Computes the positions with the default options.
    pub fn layout(&self) -> DiagramLayout {
        self.layout_with(LayoutOptions::default())
    }

    /// Computes the positions. The time is nearly proportional to the number of nodes and edges.
    ///
    /// ```
    /// use agentflow_layout::{Diagram, DiagramNode, LayoutDirection, LayoutOptions};
    ///
    /// let options = LayoutOptions::default().direction(LayoutDirection::TopToBottom);
    /// let diagram = Diagram::new("one").with_node(DiagramNode::new("a", "a"));
    /// assert!(!diagram.layout_with(options).is_left_to_right);
    /// ```
    pub fn layout_with(&self, options: LayoutOptions) -> DiagramLayout {
        let nesting = Nesting::new(self);
        let across = |is_left_to_right| Assembly::new(self, &nesting, is_left_to_right).finish();
        match options.direction {
            LayoutDirection::LeftToRight => across(true),
            LayoutDirection::TopToBottom => across(false),
            LayoutDirection::Automatic => {
                let wide = across(true);
                if wide.width <= options.max_width {
                    return wide;
                }
                let tall = across(false);
                if tall.width < wide.width { tall } else { wide }
            }
        }
    }
}

/// Space for the edges that lead from a child back to it.
#[derive(Clone, Copy, Debug, Default)]
struct LoopSpace {
    /// Size of the label along the main axis.
    main: f64,
    /// Space at each of both sides along the cross axis.
    cross: f64,
}

/// A layout in one direction.
struct Assembly<'d> {
    diagram: &'d Diagram,
    nesting: &'d Nesting,
    is_left_to_right: bool,
    nodes: Vec<LabelBox>,
    titles: Vec<LabelBox>,
    /// Labels of the edges of the nesting.
    labels: Vec<Option<PlacedLabel>>,
    /// Layouts of the levels, relative to their content.
    layouts: Vec<LevelLayout>,
    /// Space for loops of each child, by level.
    loops: Vec<Vec<LoopSpace>>,
    /// Distance of each piece's ends from the middle of their boxes, by level.
    shifts: Vec<Vec<(f64, f64)>>,
    /// Width and height of each group.
    sizes: Vec<(f64, f64)>,
}

impl<'d> Assembly<'d> {
    fn new(diagram: &'d Diagram, nesting: &'d Nesting, is_left_to_right: bool) -> Self {
        let nodes = diagram.nodes.iter().map(LabelBox::of_node).collect();
        let titles = diagram.groups.iter().map(LabelBox::of_title).collect();
        let mut labels = Vec::new();
        for edge in &nesting.edges {
            labels.push(diagram.edges[edge.index].label.as_deref().and_then(edge_label));
        }
        let levels = &nesting.levels;
        let mut loops: Vec<Vec<LoopSpace>> =
            levels.iter().map(|level| vec![LoopSpace::default(); level.children.len()]).collect();
        for (edge, label) in nesting.edges.iter().zip(&labels) {
            if let Some(place) = edge.loop_at {
                let (width, height) = label
                    .as_ref()
                    .map_or((0.0, 0.0), |label| (label.area.width, label.area.height));
                let (main, cross) =
                    if is_left_to_right { (width, height) } else { (height, width) };
                let space = &mut loops[place.level][place.index];
                space.main = space.main.max(main);
                space.cross = space.cross.max(LOOP_SPACE + cross);
            }
        }
        Self {
            diagram,
            nesting,
            is_left_to_right,
            nodes,
            titles,
            labels,
            layouts: vec![LevelLayout::default(); levels.len()],
            loops,
            shifts: levels.iter().map(|level| vec![(0.0, 0.0); level.pieces.len()]).collect(),
            sizes: vec![(0.0, 0.0); diagram.groups.len()],
        }
    }

    fn spacing(&self) -> Spacing {
        if self.is_left_to_right {
            Spacing { layers: 48.0, boxes: 20.0, lines: 14.0, parts: 32.0 }
        } else {
            Spacing { layers: 44.0, boxes: 28.0, lines: 16.0, parts: 40.0 }
        }
    }

    /// Returns the axes of a width and a height, or the reverse: the main axis first.
    fn axes(&self, (first, second): (f64, f64)) -> (f64, f64) {
        if self.is_left_to_right { (first, second) } else { (second, first) }
    }

    fn finish(mut self) -> DiagramLayout {
        for level in self.nesting.outer_first.iter().rev() {
            self.lay_out(*level);
        }
        // Positions of the contents of the levels in the picture.
        let mut origins = vec![DiagramPoint::default(); self.nesting.levels.len()];
        origins[0] = DiagramPoint::new(MARGIN, MARGIN);
        let mut groups = Vec::new();
        for level in &self.nesting.outer_first {
            if let Some(group) = level.checked_sub(1) {
                let area = self.area(self.nesting.groups[group], self.sizes[group], &origins);
                let content = self.content_start(group);
                origins[*level] = DiagramPoint::new(area.x + content.x, area.y + content.y);
                groups.push(self.placed_group(group, area));
            }
        }
        let mut nodes = Vec::new();
        for (index, place) in self.nesting.nodes.iter().enumerate() {
            let size = (self.nodes[index].width, self.nodes[index].height);
            nodes.push(self.placed_node(index, self.area(*place, size, &origins)));
        }
        let mut edges = Vec::new();
        for (index, edge) in self.nesting.edges.iter().enumerate() {
            edges.push(self.placed_edge(index, edge, &origins));
        }
        let (width, height) = self.axes((self.layouts[0].main, self.layouts[0].cross));
        DiagramLayout {
            title: self.diagram.title.clone(),
            description: self.diagram.description.clone(),
            width: width + 2.0 * MARGIN,
            height: height + 2.0 * MARGIN,
            is_left_to_right: self.is_left_to_right,
            nodes,
            groups,
            edges,
        }
    }

    /// Lays out a level whose groups have their sizes.
    fn lay_out(&mut self, index: usize) {
        let level = &self.nesting.levels[index];
        let mut graph = LevelGraph::default();
        for (child, space) in level.children.iter().zip(&self.loops[index]) {
            let (size, role) = match child {
                Child::Node(node) => {
                    ((self.nodes[*node].width, self.nodes[*node].height), LevelRole::Box)
                }
                Child::Group(group) => (self.sizes[*group], LevelRole::Box),
                Child::Entry(_) => ((0.0, 0.0), LevelRole::Entry),
                Child::Exit(_) => ((0.0, 0.0), LevelRole::Exit),
            };
            let (main, cross) = self.axes(size);
            graph.nodes.push(LevelNode {
                main,
                reserved: main.max(space.main),
                cross: cross + 2.0 * space.cross,
                role,
            });
        }
        for (piece, (from_shift, to_shift)) in level.pieces.iter().zip(&self.shifts[index]) {
            let label = self.labels[piece.edge].as_ref().filter(|_| piece.has_label);
            let label = match label {
                Some(label) => Some(self.axes((label.area.width, label.area.height))),
                None => piece.is_parallel.then_some((0.0, PARALLEL_SPACE)),
            };
            graph.edges.push(LevelEdge {
                from: piece.from,
                to: piece.to,
                from_shift: *from_shift,
                to_shift: *to_shift,
                label,
                is_label_at_end: self.nesting.edges[piece.edge].is_backward,
                bundle: piece.bundle,
            });
        }
        self.layouts[index] = graph.layout(self.spacing());
        if let Some(group) = index.checked_sub(1) {
            self.measure_group(group);
            self.place_ports(index, level, group);
        }
    }

    fn measure_group(&mut self, group: usize) {
        let content = &self.layouts[group + 1];
        let (width, height) = self.axes((content.main, content.cross));
        let width = (width + 2.0 * GROUP_PADDING).max(self.titles[group].width);
        let below = if height > 0.0 { GROUP_PADDING } else { 0.0 };
        self.sizes[group] = (to_even(width), to_even(height + TITLE_HEIGHT + below));
    }

    /// Returns the start of a group's content, relative to the group.
    fn content_start(&self, group: usize) -> DiagramPoint {
        let content = &self.layouts[group + 1];
        let (width, _) = self.axes((content.main, content.cross));
        DiagramPoint::new(((self.sizes[group].0 - width) / 2.0).floor(), TITLE_HEIGHT)
    }

    /// Tells the pieces outside of a group at which places of its border they continue.
    fn place_ports(&mut self, index: usize, level: &Level, group: usize) {
        let content = self.content_start(group);
        let (_, content_cross) = self.axes((content.x, content.y));
        let (_, group_cross) = self.axes(self.sizes[group]);
        for (child, (_, cross)) in level.children.iter().zip(&self.layouts[index].starts) {
            let (Child::Entry(port) | Child::Exit(port)) = child else { continue };
            let Port { outside: Some(end) } = port else { continue };
            let shift = content_cross + cross - group_cross / 2.0;
            let of_piece = &mut self.shifts[end.level][end.piece];
            if end.is_start {
                of_piece.0 = shift;
            } else {
                of_piece.1 = shift;
            }
        }
    }

    /// Returns the place of a child in the picture.
    fn area(&self, place: ChildPlace, size: (f64, f64), origins: &[DiagramPoint]) -> Area {
        let (main, cross) = self.layouts[place.level].starts[place.index];
        let (x, y) = self.axes((main, cross + self.loops[place.level][place.index].cross));
        let origin = origins[place.level];
        Area { x: origin.x + x, y: origin.y + y, width: size.0, height: size.1 }
    }

    fn placed_node(&self, index: usize, area: Area) -> PlacedNode {
        let node = &self.diagram.nodes[index];
        let corner = DiagramPoint::new(area.x, area.y);
        let level = self.nesting.nodes[index].level;
        PlacedNode {
            id: node.id.clone(),
            label: node.label.clone(),
            kind: node.kind.clone(),
            shape: node.shape,
            status: node.status,
            group: level.checked_sub(1).map(|group| self.diagram.groups[group].id.clone()),
            is_dashed: node.is_dashed,
            area,
            lines: moved_lines(&self.nodes[index].lines, corner),
            symbol: self.nodes[index].symbol.map(|symbol| symbol.moved(corner)),
        }
    }

    fn placed_group(&self, index: usize, area: Area) -> PlacedGroup {
        let group = &self.diagram.groups[index];
        let corner = DiagramPoint::new(area.x, area.y);
        let level = self.nesting.groups[index].level;
        PlacedGroup {
            id: group.id.clone(),
            label: group.label.clone(),
            kind: group.kind.clone(),
            status: group.status,
            group: level.checked_sub(1).map(|around| self.diagram.groups[around].id.clone()),
            depth: self.nesting.levels[level].depth,
            is_dashed: group.is_dashed,
            area,
            lines: moved_lines(&self.titles[index].lines, corner),
            symbol: self.titles[index].symbol.map(|symbol| symbol.moved(corner)),
        }
    }

    fn placed_edge(&self, index: usize, edge: &NestedEdge, origins: &[DiagramPoint]) -> PlacedEdge {
        let shown = &self.diagram.edges[edge.index];
        let label = self.labels[index].as_ref();
        let (curve, centre) = match edge.loop_at {
            Some(place) => self.looped(place, label, origins),
            None => self.along_pieces(edge, origins),
        };
        PlacedEdge {
            from: shown.from.clone(),
            to: shown.to.clone(),
            kind: shown.kind,
            curve,
            label: label.zip(centre).map(|(label, centre)| moved_label(label, centre)),
        }
    }

    /// Joins the pieces of an edge. Returns the curve and the centre of its label.
    fn along_pieces(
        &self,
        edge: &NestedEdge,
        origins: &[DiagramPoint],
    ) -> (Vec<DiagramPoint>, Option<DiagramPoint>) {
        let mut curve = Curve::default();
        let mut centre = None;
        let mut border = self.start_border(edge, origins);
        for &(level, piece) in &edge.pieces {
            let route = &self.layouts[level].routes[piece];
            let (main, cross) = self.axes((origins[level].x, origins[level].y));
            for (index, station) in route.stations.iter().enumerate() {
                let mut station = Station {
                    start: station.start + main,
                    end: station.end + main,
                    cross: station.cross + cross,
                };
                if index == 0
                    && let Some(border) = border.take()
                {
                    station.start = border;
                }
                curve.pass(station);
            }
            if let Some((at_main, at_cross)) = route.label {
                let (x, y) = self.axes((at_main + main, at_cross + cross));
                centre = Some(DiagramPoint::new(x, y));
            }
        }
        if let Some((border, cross)) = self.end_border(edge, origins) {
            curve.pass(Station { start: border, end: border, cross });
        }
        let mut points = curve.finish(edge.is_backward);
        for point in &mut points {
            let (x, y) = self.axes((point.x, point.y));
            *point = DiagramPoint::new(x, y);
        }
        (points, centre)
    }

    /// Returns the position of the border along the main axis, if the first piece starts at the
    /// border of the group that contains it.
    fn start_border(&self, edge: &NestedEdge, origins: &[DiagramPoint]) -> Option<f64> {
        let &(level, piece) = edge.pieces.first()?;
        let child = self.nesting.levels[level].pieces[piece].from;
        matches!(self.nesting.levels[level].children[child], Child::Entry(_))
            .then(|| self.borders(level, origins).0)
    }

    /// Returns the border along the main axis and the position along the cross axis, if the last
    /// piece ends at the border of the group that contains it.
    fn end_border(&self, edge: &NestedEdge, origins: &[DiagramPoint]) -> Option<(f64, f64)> {
        let &(level, piece) = edge.pieces.last()?;
        let child = self.nesting.levels[level].pieces[piece].to;
        let is_exit = matches!(self.nesting.levels[level].children[child], Child::Exit(_));
        let station = self.layouts[level].routes[piece].stations.last()?;
        let (_, cross) = self.axes((origins[level].x, origins[level].y));
        is_exit.then(|| (self.borders(level, origins).1, station.cross + cross))
    }

    /// Returns the positions of a group's borders along the main axis.
    fn borders(&self, level: usize, origins: &[DiagramPoint]) -> (f64, f64) {
        let content = self.content_start(level - 1);
        let origin = origins[level];
        let (start, _) = self.axes((origin.x - content.x, origin.y - content.y));
        (start, start + self.axes(self.sizes[level - 1]).0)
    }

    /// Returns the curve of an edge that leads back to its start, and the centre of its label.
    fn looped(
        &self,
        place: ChildPlace,
        label: Option<&PlacedLabel>,
        origins: &[DiagramPoint],
    ) -> (Vec<DiagramPoint>, Option<DiagramPoint>) {
        let size = match self.nesting.levels[place.level].children[place.index] {
            Child::Node(node) => (self.nodes[node].width, self.nodes[node].height),
            Child::Group(group) => self.sizes[group],
            Child::Entry(_) | Child::Exit(_) => (0.0, 0.0),
        };
        let area = self.area(place, size, origins);
        let far = LOOP_SPACE + 4.0;
        let at = |along: f64, away: f64| {
            if self.is_left_to_right {
                DiagramPoint::new(area.x + area.width / 2.0 + along, area.y - away)
            } else {
                DiagramPoint::new(area.right() + away, area.y + area.height / 2.0 + along)
            }
        };
        let curve = vec![at(10.0, 0.0), at(20.0, far), at(-20.0, far), at(-10.0, 0.0)];
        let centre = label.map(|label| {
            let (width, height) = (label.area.width, label.area.height);
            if self.is_left_to_right {
                // A label that is wider than the box starts with it.
                let along = (width - area.width).max(0.0) / 2.0;
                at(along, LOOP_SPACE - 2.0 + height / 2.0)
            } else {
                at(0.0, LOOP_SPACE - 2.0 + width / 2.0)
            }
        });
        (curve, centre)
    }
}

fn moved_lines(lines: &[PlacedText], by: DiagramPoint) -> Vec<PlacedText> {
    let moved = |line: &PlacedText| PlacedText { start: line.start.moved(by), ..line.clone() };
    lines.iter().map(moved).collect()
}

fn moved_label(label: &PlacedLabel, centre: DiagramPoint) -> PlacedLabel {
    PlacedLabel {
        full: label.full.clone(),
        area: Area { x: label.area.x + centre.x, y: label.area.y + centre.y, ..label.area },
        line: PlacedText { start: label.line.start.moved(centre), ..label.line.clone() },
    }
}
