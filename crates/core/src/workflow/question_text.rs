//! Texts of questions in graphs: templates over outputs and the state. They are filled when the
//! question is asked.

#[cfg(feature = "dynamic")]
use agentflow_schema::diagnostic::{Diagnostic, ExcerptKind};
#[cfg(feature = "dynamic")]
use std::sync::Arc;

use agentflow_schema::template::Template;
#[cfg(feature = "dynamic")]
use agentflow_schema::template::TemplateError;

use super::graph::GraphNode;
use super::graph_body::GraphBody;
use super::mapping::{IsNode, PlaceholderRoot};
#[cfg(feature = "dynamic")]
use super::mapping::{Names, Scope};
use super::spec::PlanNode;
#[cfg(feature = "dynamic")]
use super::spec::QuestionTextFn;
#[cfg(feature = "dynamic")]
use super::step_error::StepError;

/// Maximum bytes of a filled question: a person reads it.
#[cfg(feature = "dynamic")]
const LARGEST: usize = 1 << 20;

impl GraphNode {
    /// Returns the question of a node that is data, as a template. The question of a node with code
    /// is a constant.
    pub(super) fn question(&self) -> Option<&str> {
        match &self.does {
            Some(GraphBody::Ask(question)) => Some(&question.text),
            Some(_) => self.policy.approve.as_deref(),
            None => None,
        }
    }

    /// Returns the nodes and inputs that the node itself reads, in its behaviour and in its
    /// question. The flag is `true` if the value may be missing.
    pub(crate) fn reads_by_name<'n>(&'n self, is_node: IsNode<'_>) -> Vec<(&'n str, bool)> {
        let mut reads = self.does.as_ref().map(|does| does.reads(is_node)).unwrap_or_default();
        reads.extend(self.question().map(|text| reads_of_text(text, is_node)).unwrap_or_default());
        reads
    }

    /// Returns true if the node or its question reads the state.
    #[cfg(feature = "dynamic")]
    pub(super) fn sees_state(&self, is_node: IsNode<'_>) -> bool {
        self.does.as_ref().is_some_and(|does| !does.state_keys(is_node).is_empty())
            || self.question().is_some_and(|text| !state_keys_of_text(text, is_node).is_empty())
    }
}

impl PlanNode {
    /// Returns the template of the question, as [`GraphNode::question`] does.
    pub(super) fn question_template(&self) -> Option<&str> {
        match self.does.as_deref() {
            Some(GraphBody::Ask(question)) => Some(&question.text),
            _ => self.policy.approve.as_deref().filter(|_| self.question_text.is_some()),
        }
    }
}

/// A name in a placeholder of a question.
struct NameInText<'t> {
    name: &'t str,
    is_node: bool,
    /// `true` if only the name itself shows that it is a key of the state.
    is_bare: bool,
    is_optional: bool,
}

fn names_in_text<'t>(text: &'t str, is_node: IsNode<'_>) -> Vec<NameInText<'t>> {
    let Ok(template) = text.parse::<Template>() else { return Vec::new() };
    let mut names = Vec::new();
    for placeholder in template.placeholders() {
        let (of_node, is_bare, name) = match PlaceholderRoot::resolve(placeholder, is_node).0 {
            PlaceholderRoot::Node(name) => (true, false, name),
            PlaceholderRoot::State { key, bare } => (false, bare, key),
        };
        // The template is dropped here, so the name is borrowed from the text.
        let found = text[placeholder.at()..].find(name).map(|at| placeholder.at() + at);
        if let Some(name) = found.and_then(|at| text.get(at..at + name.len())) {
            names.push(NameInText {
                name,
                is_node: of_node,
                is_bare,
                is_optional: placeholder.is_optional(),
            });
        }
    }
    names
}

/// Returns the nodes and inputs that a question reads. The flag is `true` if the value may be
/// missing.
fn reads_of_text<'t>(text: &'t str, is_node: IsNode<'_>) -> Vec<(&'t str, bool)> {
    let names = names_in_text(text, is_node).into_iter().filter(|of| of.is_node);
    names.map(|of| (of.name, of.is_optional)).collect()
}

/// Returns the state keys that a question reads. The flag is `true` for a required bare name, which
/// must be a known key.
pub(super) fn state_keys_of_text<'t>(text: &'t str, is_node: IsNode<'_>) -> Vec<(&'t str, bool)> {
    let names = names_in_text(text, is_node).into_iter().filter(|of| !of.is_node);
    names.map(|of| (of.name, of.is_bare && !of.is_optional)).collect()
}

/// Returns the state keys that a question requires.
pub(super) fn needed_keys_of_text<'t>(text: &'t str, is_node: IsNode<'_>) -> Vec<&'t str> {
    let names =
        names_in_text(text, is_node).into_iter().filter(|of| !of.is_node && !of.is_optional);
    names.map(|of| of.name).collect()
}

/// Compiles the text of a question. Returns `None` if the text has no braces and needs no filling.
///
/// # Errors
/// A message about the mistake in a placeholder.
#[cfg(feature = "dynamic")]
pub(super) fn question_text(
    text: &str,
    names: &Names,
) -> Result<Option<QuestionTextFn>, Diagnostic> {
    if !text.contains(['{', '}']) {
        return Ok(None);
    }
    let template: Template = text.parse().map_err(|error: TemplateError| {
        Diagnostic::from(error).within(ExcerptKind::Question, text)
    })?;
    let names = Arc::clone(names);
    Ok(Some(Arc::new(move |outputs| {
        let filled = Scope { names: &names, outputs, item: None }.filled(&template, LARGEST);
        let filled =
            filled.map_err(|problem| StepError::of_value(&problem).within("the question"))?;
        Ok(filled.as_str().map_or_else(|| filled.to_string(), ToOwned::to_owned))
    })))
}
