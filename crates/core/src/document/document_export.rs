//! Export of workflows to documents. A workflow that a form cannot express is refused with the node
//! and the reason. The exported document is read again, and must give the same workflow.

use std::fmt;

use agentflow_schema::diagnostic::{Code, Diagnostic, DiagnosticSubject};
use serde_json::{Value, json};

use super::agents_document::MESSAGE;
use super::export_codes as codes;
use super::{Document, DocumentForm, export_edges, export_tools, export_tree};
use crate::workflow::{Graph, GraphNode, NodeKind, ReferenceKind};

/// A workflow that cannot be exported to a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ExportError {
    workflow: String,
    form: DocumentForm,
    problem: Diagnostic,
    other: Option<DocumentForm>,
}

impl ExportError {
    fn new(graph: &Graph, form: DocumentForm, problem: Diagnostic) -> Self {
        let problem = problem.in_graph(&graph.name);
        Self { workflow: graph.name.clone(), form, problem, other: None }
    }

    /// Returns the property of the workflow that the form cannot express. Its location has the
    /// node, if a node is the cause.
    pub fn problem(&self) -> &Diagnostic {
        &self.problem
    }

    /// Returns another form to which the workflow can be exported, if there is one.
    pub fn other_form(&self) -> Option<DocumentForm> {
        self.other
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, form, problem, other } = self;
        write!(f, "the workflow `{workflow}` cannot be exported to the form `{form}`: {problem}")?;
        match other {
            Some(other) => write!(f, "; use the form `{other}`"),
            None => Ok(()),
        }
    }
}

/// Creates a problem of a node.
pub(super) fn node_problem(node: &str, code: Code) -> Diagnostic {
    of_node(Diagnostic::new(code), node)
}

/// Adds the node to a problem, unless the problem has a node already.
pub(super) fn of_node(problem: Diagnostic, node: &str) -> Diagnostic {
    problem.of(DiagnosticSubject::node(node)).in_node(node)
}

impl Document {
    /// Exports the workflow to a form. If it is the form of this document, the document is returned
    /// as written, with its aliases expanded. Otherwise the document is generated, and reading it
    /// gives the same workflow with the same definition hash. [`to_yaml`] formats it as YAML.
    ///
    /// # Errors
    /// If the form cannot express the workflow.
    pub fn export(&self, form: DocumentForm) -> Result<Value, ExportError> {
        if form == self.form {
            return Ok(self.source.tree.to_json());
        }
        if let Some(agent) = self.agents.first().filter(|_| form != DocumentForm::Agents) {
            let code = match form {
                DocumentForm::Edges | DocumentForm::Steps => codes::AGENT_WITH_OTHER_TOOLS,
                _ => codes::AGENT_DESCRIBED,
            };
            let problem = Diagnostic::new(code).name("agent", &agent.name);
            let mut error = ExportError::new(&self.graph, form, problem);
            error.other = Some(self.form);
            return Err(error);
        }
        form.export_with(&self.graph, &self.inner)
    }
}

impl DocumentForm {
    /// Exports a workflow to a document of this form. Reading it gives the same definition hash.
    ///
    /// # Errors
    /// If the form cannot express the workflow: its nodes are code, or use features that the form
    /// does not have.
    pub fn export(self, graph: &Graph) -> Result<Value, ExportError> {
        self.export_with(graph, &[])
    }

    /// Exports a workflow with its inner workflows, as returned by
    /// [`Pipeline::graphs`](crate::pipeline::Pipeline::graphs). A [`Tree`](Self::Tree) contains
    /// them as parts; documents of the other forms describe a single workflow.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn export_with(self, graph: &Graph, inner: &[Graph]) -> Result<Value, ExportError> {
        self.written(graph, inner).map_err(|problem| {
            let mut error = ExportError::new(graph, self, problem);
            // Suggest a form only if the export to it succeeds.
            let others = [Self::Graph, Self::Tree].into_iter().filter(|other| *other != self);
            error.other = others.into_iter().find(|other| other.written(graph, inner).is_ok());
            error
        })
    }

    fn written(self, graph: &Graph, inner: &[Graph]) -> Result<Value, Diagnostic> {
        let is_code = |node: &&GraphNode| {
            node.does.is_none() && !matches!(node.kind, NodeKind::Input | NodeKind::Join)
        };
        if let Some(node) = inner.iter().chain([graph]).flat_map(|graph| &graph.nodes).find(is_code)
        {
            return Err(node_problem(&node.name, codes::NODE_IS_CODE));
        }
        if let Some(inner) = inner.first().filter(|_| self != Self::Tree) {
            return Err(Diagnostic::new(codes::INNER_WORKFLOW).name("inner", &inner.name));
        }
        let mut written = match self {
            Self::Graph => graph.to_json(),
            Self::Tools => export_tools::written(graph)?,
            Self::Edges => export_edges::written(graph)?,
            Self::Steps => export_edges::steps_written(graph)?,
            Self::Agents => return Err(no_agents(graph)),
            Self::Tree => export_tree::written(graph, inner)?,
        };
        if let (Some(decider), Value::Object(fields)) = (&graph.decider, &mut written) {
            fields.insert("decider".to_owned(), json!(decider));
        }
        if let (false, Value::Object(fields)) = (graph.limits.is_default(), &mut written) {
            fields.insert("limits".to_owned(), json!(graph.limits));
        }
        // The document is read again, to detect details that the form would express differently.
        let again = Document::read("written", written.to_string()).map_err(|error| {
            let problem = Diagnostic::new(codes::NOT_READABLE);
            match error.problems().first() {
                Some(first) => problem.nested("problem", first),
                None => problem.text("problem", &error),
            }
        })?;
        if again.graph.hash() != graph.hash() {
            return Err(first_difference(graph, &again.graph));
        }
        let is_same = |of: &Graph| {
            again.inner.iter().any(|other| other.name == of.name && other.hash() == of.hash())
        };
        match inner.iter().find(|of| !is_same(of)) {
            None if inner.len() == again.inner.len() => Ok(written),
            None => Err(Diagnostic::new(codes::MORE_INNER_WORKFLOWS)),
            Some(of) => Err(Diagnostic::new(codes::INNER_WORKFLOW_CHANGED).name("inner", &of.name)),
        }
    }
}

/// Describes why a workflow cannot be exported to the form `agents`: the form contains its agents,
/// and a workflow only names them.
fn no_agents(graph: &Graph) -> Diagnostic {
    let called = graph.nodes.iter().flat_map(|node| {
        let callees = node.does.iter().flat_map(|does| does.callees());
        callees.map(move |(kind, name)| (node, kind, name))
    });
    let called: Vec<_> = called.collect();
    if let Some((node, kind, name)) =
        called.iter().find(|(_, kind, _)| *kind != ReferenceKind::Agent)
    {
        return node_problem(&node.name, codes::CALL_NOT_OF_AGENT)
            .text("kind", kind.as_str())
            .name("callee", name);
    }
    let inputs: Vec<&str> = graph.inputs().map(|input| input.name.as_str()).collect();
    if inputs != [MESSAGE] {
        if inputs.is_empty() {
            return Diagnostic::new(codes::NO_INPUT);
        }
        return Diagnostic::new(codes::INPUT_NOT_MESSAGE).names("inputs", inputs);
    }
    match called.first() {
        Some((node, _, name)) => node_problem(&node.name, codes::AGENT_NAMED).name("agent", name),
        None => Diagnostic::new(codes::NO_AGENT),
    }
}

/// Describes the first node that differs after the export.
fn first_difference(graph: &Graph, again: &Graph) -> Diagnostic {
    let differs = |node: &&GraphNode| again.node(&node.name).is_none_or(|other| other != *node);
    match graph.nodes.iter().find(differs) {
        Some(node) => match again.node(&node.name) {
            Some(_) => node_problem(&node.name, codes::NODE_CHANGED),
            None => node_problem(&node.name, codes::NODE_NOT_EXPRESSIBLE),
        },
        None => Diagnostic::new(codes::NODE_ORDER),
    }
}

/// Formats a value as YAML. Texts are quoted, so that reading it gives the same value.
pub fn to_yaml(value: &Value) -> String {
    Yaml { value, indent: 0 }.to_string().trim_start().to_owned() + "\n"
}

struct Yaml<'v> {
    value: &'v Value,
    indent: usize,
}

impl fmt::Display for Yaml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = "  ".repeat(self.indent);
        let within = |value| Yaml { value, indent: self.indent + 1 };
        match self.value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    write!(f, "\n{space}{}:{}", Name(name), within(value))?;
                }
                Ok(())
            }
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    let item = within(item).to_string();
                    // The first field of an object is on the line of the dash.
                    write!(f, "\n{space}- {}", item.trim_start())?;
                }
                Ok(())
            }
            // JSON is valid YAML.
            other => write!(f, " {other}"),
        }
    }
}

/// The name of a field, quoted unless it is unambiguous.
struct Name<'n>(&'n str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && !matches!(name.to_ascii_lowercase().as_str(), "null" | "true" | "false");
        if is_plain { f.write_str(name) } else { write!(f, "{}", Value::from(name)) }
    }
}
