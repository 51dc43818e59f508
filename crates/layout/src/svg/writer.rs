//! The writer of SVG documents.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use super::STYLE_SHEET;
use super::escape::{class_word, push_id, push_text};
use super::shapes::{number, push_curve, push_outline, push_symbol};
use crate::diagram::{DiagramStatus, LinkKind};
use crate::placed::{DiagramLayout, DiagramPoint, PlacedEdge, PlacedGroup, PlacedNode, PlacedText};

/// Fonts whose widths the layout uses. Arial, Liberation Sans, Arimo and Helvetica have the same.
const FONTS: &str = "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif";
/// Maximum number of characters of a tooltip or a description.
const MAX_TOOLTIP: usize = 1000;
/// Maximum number of successors that the text of a node lists.
const MAX_SUCCESSORS: usize = 5;

/// Writes a [`DiagramLayout`] as an SVG document.
///
/// The document contains no script and refers to no other file. All texts are escaped. Nodes have a
/// title with their text, their status and their successors, which browsers show as a tooltip and
/// screen readers read. Each node has the attribute `data-node` with its id, each group
/// `data-group`, and each edge `data-from` and `data-to`.
///
/// Colours are custom properties of CSS, with values for light and dark. Programs that do not know
/// custom properties use the light colours.
///
/// ```
/// use agentflow_layout::{Diagram, DiagramNode, DiagramStatus, SvgWriter};
///
/// let node = DiagramNode::new("a", "charge <all>").status(DiagramStatus::Running);
/// let layout = Diagram::new("refund").with_node(node).layout();
/// let svg = SvgWriter::new().write(&layout);
/// assert!(svg.contains("charge &lt;all&gt;") && svg.contains(">running</text>"));
/// ```
#[derive(Clone, Debug)]
pub struct SvgWriter {
    has_style_sheet: bool,
    id_prefix: String,
}

impl Default for SvgWriter {
    fn default() -> Self {
        Self { has_style_sheet: true, id_prefix: "agentflow-graph".to_owned() }
    }
}

impl SvgWriter {
    /// Creates a writer of documents that contain their style sheet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves the style sheet out, for a page that serves [`STYLE_SHEET`] and whose content
    /// security policy forbids inline styles.
    #[must_use]
    pub fn without_style_sheet(mut self) -> Self {
        self.has_style_sheet = false;
        self
    }

    /// Sets the beginning of the ids in the document. Drawings on one page need different ones.
    /// Characters other than ASCII letters, digits, `-` and `_` are removed. Default:
    /// `agentflow-graph`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: &str) -> Self {
        let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        self.id_prefix = prefix.chars().filter(is_allowed).collect();
        self
    }

    /// Writes the document. The same layout always gives the same text.
    pub fn write(&self, layout: &DiagramLayout) -> String {
        let mut svg = String::with_capacity(2048 + 800 * layout.nodes.len());
        let (width, height) = (number(layout.width), number(layout.height));
        let id = &self.id_prefix;
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"agentflow-graph\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"graphics-document document\" aria-roledescription=\"graph\" \
             aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-desc\" font-family=\"{FONTS}\">"
        );
        let _ = write!(svg, "<title id=\"{id}-title\">");
        push_text(&mut svg, &layout.title, MAX_TOOLTIP);
        let _ = write!(svg, "</title>\n<desc id=\"{id}-desc\">");
        push_text(&mut svg, &layout.description, MAX_TOOLTIP);
        push_text(&mut svg, &summary(layout), MAX_TOOLTIP);
        svg.push_str("</desc>\n");
        if self.has_style_sheet {
            svg.push_str("<style>\n");
            svg.push_str(STYLE_SHEET);
            svg.push_str("</style>\n");
        }
        let _ = writeln!(
            svg,
            "<rect class=\"canvas\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
        );
        let names = DiagramNames::new(layout);
        svg.push_str("<g class=\"groups\" fill=\"#f1f5f9\" stroke=\"#7b8aa0\">\n");
        for group in &layout.groups {
            push_group(&mut svg, group, &names);
        }
        svg.push_str("</g>\n<g class=\"edges\" fill=\"none\" stroke=\"#64748b\" ");
        svg.push_str("stroke-width=\"1.5\" aria-hidden=\"true\">\n");
        for edge in &layout.edges {
            push_edge(&mut svg, edge);
        }
        // Above the edges, which may enter a group through its title.
        svg.push_str("</g>\n<g class=\"titles\" fill=\"none\" stroke=\"#64748b\">\n");
        for group in &layout.groups {
            push_title(&mut svg, group);
        }
        svg.push_str("</g>\n<g class=\"nodes\" fill=\"#f8fafc\" stroke=\"#64748b\" ");
        svg.push_str("stroke-width=\"1.25\">\n");
        for node in &layout.nodes {
            push_node(&mut svg, node, &names);
        }
        svg.push_str("</g>\n<g class=\"labels\" fill=\"#ffffff\" stroke=\"#7b8aa0\" ");
        svg.push_str("stroke-width=\"0.75\" aria-hidden=\"true\">\n");
        for edge in &layout.edges {
            push_label(&mut svg, edge);
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

/// Returns the numbers of nodes, edges and statuses as a text.
fn summary(layout: &DiagramLayout) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (nodes, edges) = (layout.nodes.len(), layout.edges.len());
    let before = if layout.description.is_empty() { "" } else { " " };
    let mut text = format!("{before}{nodes} node{}, {edges} edge{}", plural(nodes), plural(edges));
    for status in DiagramStatus::ALL {
        let count = layout.nodes.iter().filter(|node| node.status == Some(status)).count();
        if count > 0 {
            let _ = write!(text, ", {count} {}", status.word());
        }
    }
    text.push('.');
    text
}

/// First lines of the labels, by id, and the successors of each id.
struct DiagramNames<'l> {
    by_id: HashMap<&'l str, &'l str>,
    successors: BTreeMap<&'l str, Vec<&'l str>>,
}

impl<'l> DiagramNames<'l> {
    fn new(layout: &'l DiagramLayout) -> Self {
        let mut by_id = HashMap::new();
        let nodes = layout.nodes.iter().map(|node| (node.id.as_str(), node.label.as_str()));
        let groups = layout.groups.iter().map(|group| (group.id.as_str(), group.label.as_str()));
        for (id, label) in nodes.chain(groups) {
            by_id.entry(id).or_insert_with(|| label.lines().next().unwrap_or(id));
        }
        let mut successors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for edge in &layout.edges {
            let of_node = successors.entry(&edge.from).or_default();
            if of_node.len() <= MAX_SUCCESSORS && !of_node.contains(&edge.to.as_str()) {
                of_node.push(&edge.to);
            }
        }
        Self { by_id, successors }
    }

    /// Returns the text of a node for a tooltip and a screen reader.
    fn text_of(&self, id: &str, label: &str, status: Option<DiagramStatus>) -> String {
        let mut text = String::new();
        for line in label.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.extend(line.chars().take(MAX_TOOLTIP / 2));
            if text.len() > MAX_TOOLTIP {
                break;
            }
        }
        if let Some(status) = status {
            let _ = write!(text, ": {}", status.word());
        }
        let successors = self.successors.get(id).map(Vec::as_slice).unwrap_or_default();
        for (index, successor) in successors.iter().enumerate() {
            let name = self.by_id.get(successor).copied().unwrap_or(successor);
            match index {
                0 => text.push_str("; leads to "),
                MAX_SUCCESSORS => {
                    text.push_str(" and others");
                    break;
                }
                _ => text.push_str(", "),
            }
            text.extend(name.chars().take(80));
        }
        text
    }
}

fn push_group(svg: &mut String, group: &PlacedGroup, names: &DiagramNames<'_>) {
    push_start(svg, "group", &group.kind, group.status);
    svg.push_str(" data-group=\"");
    push_id(svg, &group.id);
    svg.push_str("\"><title>");
    push_text(svg, &names.text_of(&group.id, &group.label, group.status), MAX_TOOLTIP);
    let dash = if group.is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let _ = write!(
        svg,
        "</title><rect class=\"frame\"{dash} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\"/>",
        number(group.area.x),
        number(group.area.y),
        number(group.area.width),
        number(group.area.height)
    );
    svg.push_str("</g>\n");
}

fn push_title(svg: &mut String, group: &PlacedGroup) {
    push_class(svg, "title", &group.kind, group.status);
    svg.push_str(" aria-hidden=\"true\" data-group=\"");
    push_id(svg, &group.id);
    svg.push_str("\">");
    push_content(svg, group.status, group.symbol, &group.lines);
}

fn push_node(svg: &mut String, node: &PlacedNode, names: &DiagramNames<'_>) {
    push_start(svg, "node", &node.kind, node.status);
    svg.push_str(" data-node=\"");
    push_id(svg, &node.id);
    svg.push_str("\"><title>");
    push_text(svg, &names.text_of(&node.id, &node.label, node.status), MAX_TOOLTIP);
    svg.push_str("</title>");
    push_outline(svg, node.shape, &node.area, node.is_dashed);
    push_content(svg, node.status, node.symbol, &node.lines);
}

/// Appends the start of the element of a node or a group, without the end of the tag.
fn push_start(svg: &mut String, class: &str, kind: &str, status: Option<DiagramStatus>) {
    push_class(svg, class, kind, status);
    svg.push_str(" role=\"graphics-symbol img\"");
}

/// Appends the start of an element with the classes of a kind and a status.
fn push_class(svg: &mut String, class: &str, kind: &str, status: Option<DiagramStatus>) {
    let _ = write!(svg, "<g class=\"{class}");
    if let Some(kind) = class_word(kind) {
        let _ = write!(svg, " kind-{kind}");
    }
    if let Some(status) = status {
        let _ = write!(svg, " status-{}", status.word());
    }
    svg.push('"');
}

/// Appends the symbol and the texts of a node or a group, and the end of its element.
fn push_content(
    svg: &mut String,
    status: Option<DiagramStatus>,
    symbol: Option<DiagramPoint>,
    lines: &[PlacedText],
) {
    if let Some((status, centre)) = status.zip(symbol) {
        push_symbol(svg, status, centre);
    }
    for (index, line) in lines.iter().enumerate() {
        let is_word = status.is_some() && index + 1 == lines.len();
        let class = match (line.is_bold, is_word) {
            (true, _) => "name",
            (_, true) => "word",
            _ => "detail",
        };
        push_line(svg, class, line);
    }
    svg.push_str("</g>\n");
}

fn push_line(svg: &mut String, class: &str, line: &PlacedText) {
    if line.text.is_empty() {
        return;
    }
    let colour = if line.is_bold { "#0f172a" } else { "#475569" };
    let _ = write!(
        svg,
        "<text class=\"{class}\" x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{colour}\" stroke=\"none\"",
        number(line.start.x),
        number(line.start.y),
        line.font_size
    );
    if line.is_bold {
        svg.push_str(" font-weight=\"700\"");
    }
    // Another font is fitted into the measured width. The width of other scripts is only an
    // estimate, and stretching to it would deform them.
    if line.is_exact && line.width > 0.0 {
        let _ =
            write!(svg, " textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", number(line.width));
    }
    svg.push('>');
    push_text(svg, &line.text, usize::MAX);
    svg.push_str("</text>");
}

fn push_edge(svg: &mut String, edge: &PlacedEdge) {
    let _ = write!(svg, "<g class=\"edge link-{}\" data-from=\"", edge.kind.as_str());
    push_id(svg, &edge.from);
    svg.push_str("\" data-to=\"");
    push_id(svg, &edge.to);
    svg.push_str("\">");
    let dash = match edge.kind {
        LinkKind::Order => " stroke-dasharray=\"6 4\"",
        LinkKind::State => " stroke-dasharray=\"2 3\"",
        _ => "",
    };
    push_curve(svg, &edge.curve, dash);
    svg.push_str("</g>\n");
}

fn push_label(svg: &mut String, edge: &PlacedEdge) {
    let Some(label) = &edge.label else { return };
    svg.push_str("<g class=\"label\">");
    if label.line.text != label.full {
        svg.push_str("<title>");
        push_text(svg, &label.full, MAX_TOOLTIP);
        svg.push_str("</title>");
    }
    let _ = write!(
        svg,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\"/>",
        number(label.area.x),
        number(label.area.y),
        number(label.area.width),
        number(label.area.height)
    );
    push_line(svg, "detail", &label.line);
    svg.push_str("</g>\n");
}
