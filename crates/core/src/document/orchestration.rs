//! The agents of a document in the form `agents`: their settings, their messages, and the order in
//! which they run. `agents_document.rs` generates the graph.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::sync::Arc;

use agentflow_schema::template::Template;
use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::{Datum, Tree};

use super::agents_document::{LAST, MESSAGE};
use super::document_agent::DocumentAgent;
use super::document_codes;
use super::object_fields::{Fields, Problems, braces};
use super::schema_keywords::check_keywords;
use crate::event::EXIT_TOOL;
use crate::model::{ModelRef, ModelSettings};
use crate::workflow::{GraphBody, GraphNode, Mapping, Reference};

/// Default maximum number of rounds of a loop that an agent ends.
const MOST_ROUNDS: u32 = 500;

/// Types of agents in other programs, each with its replacement.
const OTHER_TYPES: [(&str, &str); 6] = [
    ("tool", "the forms `tools` and `tree` call a tool"),
    ("code", "write a tool of the program, which the forms `tools` and `tree` call"),
    (
        "expr",
        "the form `tree` has `value` and `transform`, and a node `condition` of the form `tools` computes an expression",
    ),
    (
        "sequential",
        "`orchestration` has this type, and a `sequence` of the form `tree` is a part of others",
    ),
    (
        "parallel",
        "`orchestration` has this type, and a `parallel` of the form `tree` is a part of others",
    ),
    ("loop", "`orchestration` has this type, and a `loop` of the form `tree` is a part of others"),
];

/// Orchestrations in other programs, each with its replacement.
const OTHER_ORCHESTRATIONS: [(&str, &str); 4] = [
    ("react", "an agent with `tools` works so by itself, so write `sequential` with one agent"),
    ("dag", "the forms `tools` and `edges` have dependencies between nodes"),
    (
        "llm_routed",
        "the form `tree` has `route`, and a `decider` is an agent that is asked before each node",
    ),
    (
        "router",
        "the form `tree` has `route`, and a `decider` is an agent that is asked before each node",
    ),
];

/// An agent of the document.
pub(super) struct OrchestratedAgent<'t> {
    pub(super) tree: &'t Tree,
    pub(super) name: &'t str,
    model: &'t str,
    description: Option<&'t str>,
    instructions: String,
    instruction: Option<&'t Tree>,
    /// Paragraphs of the instruction with placeholders, each with the number of braces before it.
    /// They are part of the message to the agent, since only the other paragraphs are constant.
    asks: Vec<(Template, usize)>,
    tools: Vec<&'t str>,
    output_key: Option<(&'t str, &'t Tree)>,
    settings: ModelSettings,
}

impl<'t> OrchestratedAgent<'t> {
    pub(super) fn read(tree: &'t Tree, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::from_tree(tree, "an agent", problems)?;
        let name = fields.need_text("name", problems).map(|(name, _)| name);
        if let Some(kind) = fields.text("type", problems).filter(|kind| kind.text() != Some("llm"))
        {
            let instead = OTHER_TYPES.iter().find(|(name, _)| Some(*name) == kind.text());
            let hint = instead.map(|(_, instead)| Suggestion::advice(*instead));
            problems.note(
                &kind.at,
                Diagnostic::new(document_codes::UNKNOWN_AGENT_TYPE)
                    .text("found", kind.what())
                    .suggest(hint),
            );
        }
        let model = fields.need_text("model", problems).map(|(model, at)| {
            if let Err(error) = model.parse::<ModelRef>() {
                problems.note(&at.at, error.into());
            }
            model
        });
        let description = fields.text("description", problems).and_then(Tree::text);
        let instruction = fields.text("instruction", problems);
        let tools = fields.texts("tools", problems).into_iter().map(|(tool, _)| tool).collect();
        let output_key =
            fields.text("output_key", problems).and_then(|key| Some((key.text()?, key)));
        fields.text("description", problems);
        let settings = settings(&mut fields, problems);
        let schema = fields.get("output_schema");
        if let Some(schema) = schema.filter(|schema| !matches!(schema.datum, Datum::Object(_))) {
            problems.note(
                &schema.at,
                Diagnostic::new(document_codes::OUTPUT_SCHEMA_NOT_AN_OBJECT)
                    .text("found", schema.what()),
            );
        }
        schema.into_iter().for_each(|schema| check_keywords(schema, problems));
        fields.end_with_further(problems);
        if let Some((key, at)) = output_key
            && (key.starts_with("user:") || key.starts_with("app:"))
        {
            problems
                .note(&at.at, Diagnostic::new(document_codes::LASTING_OUTPUT_KEY).name("key", key));
        }
        let (mut instructions, mut asks) = (Vec::new(), Vec::new());
        if let Some(instruction) = instruction {
            let mut before = 0;
            let written = instruction.text().unwrap_or_default();
            let text = with_literal_json(written);
            for paragraph in paragraphs(&text) {
                match paragraph.parse::<Template>() {
                    Ok(template) if template.placeholders().next().is_some() => {
                        asks.push((template, before));
                    }
                    Ok(template) => {
                        instructions.push(template.as_str().replace("{{", "{").replace("}}", "}"));
                    }
                    Err(error) => {
                        // If braces were doubled, their numbers do not match the written text.
                        let number = if text == written {
                            before + braces(&paragraph[..error.at()])
                        } else {
                            usize::MAX
                        };
                        problems.note_at_brace(instruction, number, error.into());
                    }
                }
                before += braces(&paragraph);
            }
        }
        if let Some(schema) = schema {
            instructions.push(format!(
                "Answer with JSON that fits this JSON Schema, and with nothing else: {}",
                schema.to_json()
            ));
        }
        Some(Self {
            tree,
            name: name?,
            model: model.unwrap_or_default(),
            description,
            instructions: instructions.join("\n\n"),
            instruction,
            asks,
            tools,
            output_key,
            settings,
        })
    }

    pub(super) fn agent(self: &&Self) -> DocumentAgent {
        DocumentAgent {
            name: self.name.into(),
            model: Some(self.model.into()),
            instructions: self.instructions.clone(),
            description: self.description.map(Arc::from),
            tools: self.tools.iter().map(|tool| Arc::from(*tool)).collect(),
            settings: self.settings.clone(),
        }
    }

    pub(super) fn node(&self, with: Mapping) -> GraphNode {
        let node = GraphNode::new(self.name, GraphBody::Call(Reference::agent(self.name, with)));
        match self.output_key {
            Some((key, _)) => node.save(key, ""),
            None => node,
        }
    }

    /// Returns the message to the agent: the paragraphs of its instruction with placeholders,
    /// followed by the message of the workflow. Without such paragraphs: the message of the
    /// workflow, and the answers of the agents before it.
    pub(super) fn asked(
        &self,
        before: &[&OrchestratedAgent<'_>],
        in_round: bool,
        problems: &mut Problems,
    ) -> Mapping {
        if self.asks.is_empty() {
            let message = (MESSAGE, Mapping::from(MESSAGE));
            let last = in_round.then(|| (LAST, Mapping::from(LAST)));
            let answers = before.iter().map(|member| (member.name, Mapping::from(member.name)));
            return match (before.is_empty(), in_round) {
                (true, false) => Mapping::from(MESSAGE),
                _ => Mapping::object([message].into_iter().chain(last).chain(answers)),
            };
        }
        let texts: Vec<String> =
            self.asks.iter().map(|ask| self.with_nodes(ask, before, in_round, problems)).collect();
        let whole = format!("{}\n\n{{{MESSAGE}}}", texts.join("\n\n"));
        match whole.parse() {
            Ok(template) => Mapping::Template(template),
            Err(_) => Mapping::from(MESSAGE),
        }
    }

    /// Replaces the keys in a paragraph's placeholders with the names of the agents that save them.
    fn with_nodes(
        &self,
        (ask, braces_before): &(Template, usize),
        before: &[&OrchestratedAgent<'_>],
        in_round: bool,
        problems: &mut Problems,
    ) -> String {
        let written = ask.as_str();
        let (mut text, mut copied, mut counted, mut number) = (String::new(), 0, 0, *braces_before);
        for placeholder in ask.placeholders() {
            let Some(root) = placeholder.parts().first() else { continue };
            number += braces(&written[counted..placeholder.at()]);
            counted = placeholder.at();
            let of_key =
                before.iter().find(|member| member.output_key.is_some_and(|(key, _)| key == root));
            let node = of_key
                .or_else(|| before.iter().find(|member| member.name == root))
                .map(|member| member.name);
            let own = [MESSAGE, LAST]
                .into_iter()
                .find(|own| own == root && (in_round || *own == MESSAGE));
            match node.or(own) {
                Some(name) => {
                    let at = placeholder.at() + 1;
                    text.push_str(&written[copied..at]);
                    text.push_str(name);
                    copied = at + root.len();
                }
                // A value of the application or the user, which is read from the state.
                None if root.contains(':') => {}
                None => {
                    let keys = before.iter().filter_map(|member| Some(member.output_key?.0));
                    let near = nearest(
                        root,
                        keys.chain(before.iter().map(|member| member.name)).chain([MESSAGE]),
                    );
                    let hint = Suggestion::similar(near);
                    problems.note_at_brace(
                        self.instruction.unwrap_or(self.tree),
                        number,
                        Diagnostic::new(document_codes::UNKNOWN_PLACEHOLDER)
                            .name("agent", self.name)
                            .name("root", root)
                            .suggest(hint),
                    );
                }
            }
        }
        text.push_str(&written[copied..]);
        text
    }
}

/// Reads the settings of the model: the known settings, and further fields of the request in
/// `config`.
fn settings(fields: &mut Fields<'_>, problems: &mut Problems) -> ModelSettings {
    let mut settings = ModelSettings::default();
    if let Some(temperature) = fields.read("temperature", problems) {
        settings = settings.temperature(temperature);
    }
    if let Some(top_p) = fields.read("top_p", problems) {
        settings = settings.top_p(top_p);
    }
    if let Some(seed) = fields.read("seed", problems) {
        settings = settings.seed(seed);
    }
    for name in ["max_output_tokens", "max_tokens"] {
        if let Some(tokens) = fields.read(name, problems) {
            settings = settings.max_tokens(tokens);
        }
    }
    for (text, _) in fields.texts("stop", problems) {
        settings = settings.stop(text);
    }
    if let Some(config) = fields.get("config") {
        match &config.datum {
            Datum::Object(further) => {
                for field in further {
                    settings = settings.extra(field.name.as_str(), field.value.to_json());
                }
            }
            _ => problems.note(
                &config.at,
                Diagnostic::new(document_codes::CONFIG_NOT_AN_OBJECT).text("found", config.what()),
            ),
        }
    }
    settings
}

/// Doubles the braces of JSON objects in a string, so that they are not placeholders. A JSON object
/// starts with a name in quotes, or is empty.
fn with_literal_json(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let doubled = from.starts_with("{{") || from.starts_with("}}");
        let length = if doubled { 2 } else { object_at(from).unwrap_or(1) };
        let (part, behind) = from.split_at(length);
        match length {
            1 | 2 if doubled || length == 1 => out.push_str(part),
            _ => out.push_str(&part.replace('{', "{{").replace('}', "}}")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Returns the length of the JSON object at the beginning of a string. Only braces and quotes are
/// parsed.
fn object_at(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('{')?.trim_start();
    if !inside.starts_with(['"', '}']) {
        return None;
    }
    let (mut depth, mut in_quotes, mut is_escaped) = (0_usize, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_quotes => is_escaped = true,
            '"' => in_quotes = !in_quotes,
            '{' if !in_quotes => depth += 1,
            '}' if !in_quotes => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits a string into paragraphs at blank lines.
fn paragraphs(text: &str) -> Vec<String> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.trim().lines() {
        match (line.trim().is_empty(), all.last_mut()) {
            (true, Some(last)) if !last.is_empty() => all.push(Vec::new()),
            (false, Some(last)) => last.push(line),
            _ => {}
        }
    }
    all.into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n")).collect()
}

/// The order in which the agents run.
pub(super) enum Orchestration {
    Sequential(Vec<usize>),
    Parallel(Vec<usize>),
    Loop { agents: Vec<usize>, most: u32 },
}

impl Orchestration {
    pub(super) fn read(
        tree: &Tree,
        members: &[OrchestratedAgent<'_>],
        problems: &mut Problems,
    ) -> Option<Self> {
        const KINDS: [&str; 3] = ["sequential", "parallel", "loop"];
        let mut fields = Fields::from_tree(tree, "`orchestration`", problems)?;
        let kind = fields.need_text("type", problems);
        let named = fields.texts("agents", problems);
        let most = fields.get("max_iterations");
        let rounds: Option<u32> = fields.read("max_iterations", problems);
        fields.end(problems);
        if named.is_empty() && !members.is_empty() {
            let place = tree.field("agents").map_or(&tree.at, |field| &field.value.at);
            problems.note(place, Diagnostic::new(document_codes::EMPTY_ORCHESTRATION));
        }
        let mut agents = Vec::new();
        for (name, at) in &named {
            match members.iter().position(|member| member.name == *name) {
                Some(member) if agents.contains(&member) => {
                    problems.note(
                        &at.at,
                        Diagnostic::new(document_codes::AGENT_ORDERED_TWICE).name("agent", name),
                    );
                }
                Some(member) => agents.push(member),
                None => {
                    let near = nearest(name, members.iter().map(|member| member.name));
                    let hint = Suggestion::similar(near);
                    problems.note(
                        &at.at,
                        Diagnostic::new(document_codes::UNKNOWN_AGENT)
                            .name("agent", name)
                            .suggest(hint),
                    );
                    // Continue with the suggested name, to find further mistakes.
                    let meant = members.iter().position(|member| Some(member.name) == near);
                    agents.extend(meant.filter(|member| !agents.contains(member)));
                }
            }
        }
        for (at, member) in members.iter().enumerate() {
            if members[..at].iter().any(|other| other.name == member.name) {
                problems.note(
                    &member.tree.at,
                    Diagnostic::new(document_codes::DUPLICATE_AGENT).name("agent", member.name),
                );
            // Only if all names are valid: otherwise a misspelled name may mean this agent.
            } else if !agents.contains(&at) && !named.is_empty() && named.len() == agents.len() {
                let name = member.name;
                problems.note(
                    &member.tree.at,
                    Diagnostic::new(document_codes::AGENT_NOT_ORDERED).name("agent", name),
                );
            }
        }
        let (kind, at) = kind?;
        let near = nearest(kind, KINDS);
        if !KINDS.contains(&kind) {
            let hint = match (near, OTHER_ORCHESTRATIONS.iter().find(|(name, _)| *name == kind)) {
                (_, Some((_, instead))) => Suggestion::advice(*instead),
                (Some(near), None) => Suggestion::Replace(near.to_owned()),
                (None, None) => {
                    Suggestion::advice(format!("it is one of `{}`", KINDS.join("`, `")))
                }
            };
            problems.note(
                &at.at,
                Diagnostic::new(document_codes::UNKNOWN_ORCHESTRATION)
                    .name("orchestration", kind)
                    .suggest(hint),
            );
        }
        // Continue with the suggested word, to find further mistakes.
        let kind = near?;
        if let Some(most) = most.filter(|_| kind != "loop") {
            problems
                .note(&most.at, Diagnostic::new(document_codes::ITERATIONS_OF_OTHER_ORCHESTRATION));
        }
        match kind {
            "sequential" => Some(Self::Sequential(agents)),
            "parallel" => Some(Self::Parallel(agents)),
            _ => {
                let can_end = agents.iter().any(|at| members[*at].tools.contains(&EXIT_TOOL));
                if most.is_none() && !can_end {
                    problems.note(
                        &at.at,
                        Diagnostic::new(document_codes::ENDLESS_LOOP).name("tool", EXIT_TOOL),
                    );
                }
                Some(Self::Loop { agents, most: rounds.unwrap_or(MOST_ROUNDS) })
            }
        }
    }

    /// Returns the agents in their order.
    pub(super) fn members<'m, 't>(
        &self,
        members: &'m [OrchestratedAgent<'t>],
    ) -> Vec<&'m OrchestratedAgent<'t>> {
        let (Self::Sequential(agents) | Self::Parallel(agents) | Self::Loop { agents, .. }) = self;
        agents.iter().filter_map(|at| members.get(*at)).collect()
    }
}
