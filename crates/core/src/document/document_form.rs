//! [`DocumentForm`]: the forms of documents, which are recognized by their top-level fields.

use std::fmt;
use std::str::FromStr;

use agentflow_schema::text::{did_you_mean, nearest};
use agentflow_schema::text_tree::{Datum, Field, Misread, Tree};

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

    pub(super) fn detect(tree: &Tree) -> Result<Self, Misread> {
        let list = || {
            let all = Self::ALL.map(|form| format!("{form} ({})", form.recognised_by()));
            format!("the forms are {}", all.join(", "))
        };
        let Datum::Object(fields) = &tree.datum else {
            let problem =
                format!("a document is an object, and this is {}; {}", tree.what(), list());
            return Err(Misread::new(tree.at.clone(), problem));
        };
        let at = fields.first().map_or(tree.at.clone(), |field| field.at.clone());
        let fitting: Vec<Self> = Self::ALL.into_iter().filter(|form| form.fits(tree)).collect();
        match fitting.as_slice() {
            [form] => Ok(*form),
            [] => {
                let none = "the document has none of the known forms";
                // A misspelled field is reported before a missing one, since it is the more
                // specific message.
                let misspelt = fields.iter().find_map(|field| {
                    let is_known = FIELDS.contains(&field.name.as_str());
                    let near = if is_known { None } else { nearest(&field.name, FIELDS) }?;
                    tree.field(near).is_none().then_some((field, near))
                });
                Err(match misspelt {
                    Some((Field { name, at, .. }, near)) => {
                        let (list, hint) = (list(), did_you_mean(Some(near)));
                        Misread::new(
                            at.clone(),
                            format!(
                                "{none}; {list}; the field `{name}` belongs to none of them{hint}"
                            ),
                        )
                    }
                    None => Self::incomplete(tree)
                        .unwrap_or_else(|| Misread::new(at, format!("{none}; {}", list()))),
                })
            }
            [one, other, ..] => {
                let (by, also) = (one.recognised_by(), other.recognised_by());
                let problem = format!(
                    "the document has two forms: {one}, by {by}, and {other}, by {also}; remove what belongs to one of them"
                );
                Err(Misread::new(at, problem))
            }
        }
    }
}

impl DocumentForm {
    /// Describes the missing fields of a document that has some fields of a form.
    fn incomplete(tree: &Tree) -> Option<Misread> {
        let lacks = [
            (
                "agents",
                "a document with `agents` needs `orchestration`, which says in what order they run: \
                 `orchestration: {type: sequential, agents: [..]}`",
            ),
            (
                "orchestration",
                "a document with `orchestration` needs `agents`, a list of the agents that it names",
            ),
            (
                "workflow_id",
                "a document with `workflow_id` needs `nodes` and `edges`, or `steps`, which run one after another",
            ),
            (
                "workflowId",
                "a document with `workflowId` needs `nodes` and `edges`, or `steps`, which run one after another",
            ),
            (
                "nodes",
                "a document with `nodes` needs `id`, where each node names a `tool`, `output`, where it is a graph and says \
                 whose output the workflow has, or `workflow_id` and `edges`",
            ),
            ("steps", "a document with `steps` needs `workflow_id`, the name of the workflow"),
            (
                "edges",
                "a document with `edges` needs `workflow_id`, the name of the workflow, and `nodes`",
            ),
        ];
        lacks
            .into_iter()
            .find_map(|(name, problem)| Some(Misread::new(tree.field(name)?.at.clone(), problem)))
    }
}

impl FromStr for DocumentForm {
    type Err = String;

    /// Parses the name of a form.
    ///
    /// # Errors
    /// A message that lists the names of all forms.
    fn from_str(word: &str) -> Result<Self, String> {
        let words = || Self::ALL.map(Self::as_str);
        Self::ALL.into_iter().find(|form| form.as_str() == word).ok_or_else(|| {
            let near = did_you_mean(nearest(word, words()));
            format!("there is no form `{word}`{near}; the forms are {}", words().join(", "))
        })
    }
}

impl fmt::Display for DocumentForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
