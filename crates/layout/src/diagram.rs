//! The input of a layout: nodes, groups and edges with their texts.

use serde::{Deserialize, Serialize};

/// A directed graph to draw. [`layout`](Self::layout) computes its picture.
///
/// Nodes and groups share one set of ids. If an id occurs twice, edges belong to its first
/// occurrence. An edge whose ends are not in the diagram is left out of the layout.
///
/// ```
/// use agentflow_layout::{Diagram, DiagramEdge, DiagramGroup, DiagramNode};
///
/// let diagram = Diagram::new("digest")
///     .with_node(DiagramNode::new("list", "list"))
///     .with_group(DiagramGroup::new("notes", "notes\nfor each"))
///     .with_node(DiagramNode::new("notes/read", "read").in_group("notes"))
///     .with_edge(DiagramEdge::new("list", "notes"));
/// let layout = diagram.layout();
/// assert!(layout.groups[0].area.contains(&layout.nodes[1].area));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Diagram {
    /// Title of the picture, for screen readers.
    pub title: String,
    /// Description of the picture, for screen readers. The number of nodes and their statuses are
    /// added to it.
    pub description: String,
    /// Nodes, in the order in which a reader expects them.
    pub nodes: Vec<DiagramNode>,
    /// Groups. A group may be listed before or after the group that contains it.
    pub groups: Vec<DiagramGroup>,
    /// Edges between nodes and groups.
    pub edges: Vec<DiagramEdge>,
}

impl Diagram {
    /// Creates a diagram without nodes.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a node.
    #[must_use]
    pub fn with_node(mut self, node: DiagramNode) -> Self {
        self.nodes.push(node);
        self
    }

    /// Adds a group.
    #[must_use]
    pub fn with_group(mut self, group: DiagramGroup) -> Self {
        self.groups.push(group);
        self
    }

    /// Adds an edge.
    #[must_use]
    pub fn with_edge(mut self, edge: DiagramEdge) -> Self {
        self.edges.push(edge);
        self
    }
}

/// A node of a [`Diagram`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DiagramNode {
    /// Id that edges refer to.
    pub id: String,
    /// Text of the node. The first line is its name; each further line is a detail in a smaller
    /// font. At most six lines are shown, and long lines are cut.
    pub label: String,
    /// Kind of the node as a word, such as `agent`. It becomes a class of the drawing.
    pub kind: String,
    /// Outline of the node.
    pub shape: NodeShape,
    /// Status of the node. `None` if the diagram shows a definition and not a run.
    pub status: Option<DiagramStatus>,
    /// Id of the group that contains the node. An unknown id has no effect.
    pub group: Option<String>,
    /// `true` if the outline is dashed.
    pub is_dashed: bool,
}

impl DiagramNode {
    /// Creates a node outside of groups, without a kind and a status.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), ..Self::default() }
    }

    /// Sets the kind and the outline.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>, shape: NodeShape) -> Self {
        self.kind = kind.into();
        self.shape = shape;
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: DiagramStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Puts the node into a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }
}

/// A box with a title around nodes and other groups, such as the steps for each item of a list.
/// Edges can start and end at the box itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DiagramGroup {
    /// Id that edges, nodes and nested groups refer to.
    pub id: String,
    /// Title of the box. The first line is its name; further lines are details.
    pub label: String,
    /// Kind of the group as a word, such as `map`. It becomes a class of the drawing.
    pub kind: String,
    /// Status of the group. `None` if the diagram shows a definition and not a run.
    pub status: Option<DiagramStatus>,
    /// Id of the group that contains this one. An unknown id has no effect, as has a group that
    /// contains itself, or that is nested in more than 64 groups.
    pub group: Option<String>,
    /// `true` if the outline is dashed.
    pub is_dashed: bool,
}

impl DiagramGroup {
    /// Creates a group outside of other groups, without a kind and a status.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self { id: id.into(), label: label.into(), ..Self::default() }
    }

    /// Sets the kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: DiagramStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Puts the group into another one.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }
}

/// An edge of a [`Diagram`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DiagramEdge {
    /// Id of the node or group that the edge starts at.
    pub from: String,
    /// Id of the node or group that the edge leads to.
    pub to: String,
    /// Reason of the edge, which determines its line.
    pub kind: LinkKind,
    /// Text on the edge. Only its first line is shown.
    pub label: Option<String>,
}

impl DiagramEdge {
    /// Creates an edge of kind [`Output`](LinkKind::Output) without a text.
    pub fn new(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), ..Self::default() }
    }

    /// Sets the kind.
    #[must_use]
    pub fn kind(mut self, kind: LinkKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the text on the edge.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

/// Reason of an edge. The edge of an arm or a condition is solid, of a failure in the colour of
/// failures, of the state dotted, and of the order dashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LinkKind {
    /// The second node uses the output of the first one.
    #[default]
    Output,
    /// The router has taken this arm.
    Arm,
    /// The condition of the edge holds.
    Condition,
    /// The first node has failed.
    Failure,
    /// The second node reads a key of the state that the first one saves.
    State,
    /// The second node waits for the first one.
    Order,
}

impl LinkKind {
    /// Returns the kind as a word, such as `output`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Arm => "arm",
            Self::Condition => "condition",
            Self::Failure => "failure",
            Self::State => "state",
            Self::Order => "order",
        }
    }
}

/// Outline of a node. The outline distinguishes the kinds without colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeShape {
    /// A rectangle: a step.
    #[default]
    Rectangle,
    /// A rectangle with very round corners: a value or a check.
    Rounded,
    /// Round ends: an input.
    Pill,
    /// Pointed ends: a choice.
    Hexagon,
    /// Cut corners: a question to a person.
    Octagon,
    /// Several rectangles behind each other: a step that runs several times.
    Stack,
    /// A rectangle with double sides: another workflow.
    Subroutine,
}

/// Status of a node or a group. The drawing shows it as a word and a symbol, not only as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DiagramStatus {
    /// Not started: an empty circle.
    Pending,
    /// Waiting for a person: a half-filled circle.
    Waiting,
    /// Running: a filled triangle.
    Running,
    /// Ended with an output: a check mark.
    Success,
    /// Failed: a cross.
    Failed,
    /// Left out: a dash.
    Skipped,
    /// Stopped: a filled square.
    Cancelled,
}

impl DiagramStatus {
    /// All statuses, in the order in which a summary lists them.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Waiting,
        Self::Failed,
        Self::Success,
        Self::Pending,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// Returns the word that the drawing shows, such as `done`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Success => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Direction in which the layers follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LayoutDirection {
    /// From left to right if the picture is not wider than [`LayoutOptions::max_width`]. Otherwise
    /// the direction with the smaller width.
    #[default]
    Automatic,
    /// From left to right.
    LeftToRight,
    /// From top to bottom.
    TopToBottom,
}

/// Options of [`Diagram::layout_with`].
///
/// ```
/// use agentflow_layout::{LayoutDirection, LayoutOptions};
///
/// let options = LayoutOptions::default();
/// assert_eq!((options.direction, options.max_width), (LayoutDirection::Automatic, 2200.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LayoutOptions {
    /// Direction of the layers. Default: [`Automatic`](LayoutDirection::Automatic).
    pub direction: LayoutDirection,
    /// Width in pixels up to which the automatic direction is from left to right. Default: 2200,
    /// which is about twelve layers.
    pub max_width: f64,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        Self { direction: LayoutDirection::Automatic, max_width: 2200.0 }
    }
}

impl LayoutOptions {
    /// Sets the direction of the layers.
    #[must_use]
    pub fn direction(mut self, direction: LayoutDirection) -> Self {
        self.direction = direction;
        self
    }
}
