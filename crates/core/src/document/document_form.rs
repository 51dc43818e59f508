//! [`DocumentForm`]: the forms of documents, which are recognized by their top-level fields.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::fmt;
use std::str::FromStr;

use agentflow_schema::text::{did_you_mean, nearest};
use agentflow_schema::text_tree::{Datum, Field, Tree};

use super::document_codes;
use super::tree_document::TOPOLOGY;

/// A form of a document. It is recognized by the fields of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DocumentForm {
    /// Agents and their order: `agents` and `orchestration`.
    Agents,
    /// Tool calls: `id`, and `nodes` with a `tool` each.
    Tools,
    /// Calls to MCP servers and remote agents (A2A), with edges between them: `workflow_id`,
    /// `nodes` and `edges`.
    Edges,
    /// Calls to MCP servers and remote agents (A2A) in sequence: `workflow_id` and `steps`.
    Steps,
    /// Nested pipeline operators: `name` and `topology`.
    Tree,
    /// The graph itself, as returned by [`Graph::to_json`](crate::workflow::Graph::to_json):
    /// `nodes` and `output`.
    Graph,
}

/// The fields by which forms are recognized.
const FIELDS: [&str; 11] = [
    "agents",
    "edges",
    "id",
    "name",
    "nodes",
    "orchestration",
    "output",
    "steps",
    "topology",
    "workflow_id",
    "workflowId",
];

impl DocumentForm {
    /// Returns the name of the form, such as `graph`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Tools => "tools",
            Self::Edges => "edges",
            Self::Steps => "steps",
            Self::Tree => "tree",
            Self::Graph => "graph",
        }
    }

    /// Describes the fields by which the form is recognized.
    fn recognised_by(self) -> &'static str {
        match self {
            Self::Agents => "`agents` and `orchestration`",
            Self::Tools => "`id` and `nodes` with a `tool` each",
            Self::Edges => "`workflow_id`, `nodes` and `edges`",
            Self::Steps => "`workflow_id` and `steps`",
            Self::Tree => "`name` and `topology`",
            Self::Graph => "`name`, `nodes` and `output`",
        }
    }

    fn fits(self, tree: &Tree) -> bool {
        let has = |name: &str| tree.field(name).is_some();
        let has_id = has("workflow_id") || has("workflowId");
        match self {
            Self::Agents => has("agents") && has("orchestration"),
            Self::Tools => has("id") && has("nodes"),
            Self::Edges => has_id && has("nodes") && has("edges"),
            Self::Steps => has_id && has("steps"),
            Self::Tree => TOPOLOGY.into_iter().any(has),
            Self::Graph => has("nodes") && has("output"),
        }
    }

    pub(super) fn detect(tree: &Tree) -> Result<Self, Diagnostic> {
        let list = || {
            let all = Self::ALL.map(|form| format!("{form} ({})", form.recognised_by()));
            all.join(", ")
        };
        let Datum::Object(fields) = &tree.datum else {
            let found = Diagnostic::new(document_codes::NOT_AN_OBJECT).text("found", tree.what());
            return Err(found.text("forms", list()).at(tree.at.clone()));
        };
        let at = fields.first().map_or(tree.at.clone(), |field| field.at.clone());
        let fitting: Vec<Self> = Self::ALL.into_iter().filter(|form| form.fits(tree)).collect();
        match fitting.as_slice() {
            [form] => Ok(*form),
            [] => {
                // A misspelled field is reported before a missing one, since it is the more
                // specific message.
                let misspelt = fields.iter().find_map(|field| {
                    let is_known = FIELDS.contains(&field.name.as_str());
                    let near = if is_known { None } else { nearest(&field.name, FIELDS) }?;
                    tree.field(near).is_none().then_some((field, near))
                });
                Err(match misspelt {
                    Some((Field { name, at, .. }, near)) => {
                        let found =
                            Diagnostic::new(document_codes::FIELD_OF_NO_FORM).text("forms", list());
                        let found = found.name("field", name).at(at.clone());
                        found.suggest(Suggestion::similar(Some(near)))
                    }
                    None => Self::incomplete(tree).unwrap_or_else(|| {
                        Diagnostic::new(document_codes::UNKNOWN_FORM).text("forms", list()).at(at)
                    }),
                })
            }
            [one, other, ..] => {
                let (by, also) = (one.recognised_by(), other.recognised_by());
                let found =
                    Diagnostic::new(document_codes::TWO_FORMS).text("one", one).text("by", by);
                Err(found.text("other", other).text("also", also).at(at))
            }
        }
    }
}

impl DocumentForm {
    /// Describes the missing fields of a document that has some fields of a form.
    fn incomplete(tree: &Tree) -> Option<Diagnostic> {
        let lacks = [
            ("agents", document_codes::AGENTS_WITHOUT_ORCHESTRATION),
            ("orchestration", document_codes::ORCHESTRATION_WITHOUT_AGENTS),
            ("workflow_id", document_codes::WORKFLOW_ID_WITHOUT_NODES),
            ("workflowId", document_codes::WORKFLOW_ID_WITHOUT_NODES),
            ("nodes", document_codes::NODES_WITHOUT_ID),
            ("steps", document_codes::STEPS_WITHOUT_WORKFLOW_ID),
            ("edges", document_codes::EDGES_WITHOUT_WORKFLOW_ID),
        ];
        for (name, code) in lacks {
            if let Some(field) = tree.field(name) {
                return Some(Diagnostic::new(code).name("field", name).at(field.at.clone()));
            }
        }
        None
    }
}

impl FromStr for DocumentForm {
    type Err = UnknownForm;

    /// Parses the name of a form.
    ///
    /// # Errors
    /// There is no form of this name.
    fn from_str(word: &str) -> Result<Self, UnknownForm> {
        let form = Self::ALL.into_iter().find(|form| form.as_str() == word);
        form.ok_or_else(|| UnknownForm { name: word.to_owned() })
    }
}

/// Error of a string that is not the name of a [`DocumentForm`]. The message lists the forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownForm {
    name: String,
}

impl UnknownForm {
    /// Returns the unknown name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for UnknownForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = DocumentForm::ALL.map(DocumentForm::as_str);
        let near = did_you_mean(nearest(&self.name, words));
        write!(f, "there is no form `{}`{near}; the forms are {}", self.name, words.join(", "))
    }
}

impl std::error::Error for UnknownForm {}

impl fmt::Display for DocumentForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
