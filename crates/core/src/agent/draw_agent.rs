//! Draws an agent as Mermaid and Graphviz text: its model, tools, toolsets, nested agents and
//! handoffs. An agent that several others use is drawn once.

use std::fmt::Write;

use super::outline::{AgentOutline, ToolOutline};

/// A graph: boxes, and arrows between their indices.
#[derive(Default)]
struct AgentDiagram {
    boxes: Vec<DiagramBox>,
    arrows: Vec<(usize, usize, &'static str)>,
}

struct DiagramBox {
    kind: Kind,
    name: String,
    label: String,
}

/// Label of dashed arrows, which are handoffs.
const TRANSFERS: &str = "may transfer to";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Agent,
    Model,
    Tool,
    Toolset,
    Workflow,
}

impl AgentDiagram {
    fn new(outline: &AgentOutline) -> Self {
        let mut picture = Self::default();
        picture.agent(outline, &[]);
        picture
    }

    /// Returns the index of a box. The flag is `true` if the box is new.
    fn add(&mut self, kind: Kind, name: &str, label: String) -> (usize, bool) {
        match self
            .boxes
            .iter()
            .position(|other| other.kind == kind && other.name == name && other.label == label)
        {
            Some(at) => (at, false),
            None => {
                self.boxes.push(DiagramBox { kind, name: name.to_owned(), label });
                (self.boxes.len() - 1, true)
            }
        }
    }

    fn agent(&mut self, outline: &AgentOutline, marks: &[String]) -> usize {
        let granted = outline.scopes.iter().map(|scope| format!("granted {scope}"));
        let reads = outline.reads.iter().map(|key| format!("reads {key}"));
        let saves = outline.saves.iter().map(|key| format!("saves {key}"));
        let own: Vec<String> = granted.chain(reads).chain(saves).collect();
        let (at, is_new) = self.add(
            Kind::Agent,
            &outline.name,
            label(&outline.name, "agent", &[marks, &own].concat()),
        );
        if !is_new {
            return at;
        }
        if !outline.model.is_empty() {
            let (model, _) = self.add(Kind::Model, &outline.model, outline.model.clone());
            self.arrows.push((at, model, "asks"));
        }
        for tool in &outline.tools {
            let to = self.tool(tool);
            self.arrows.push((at, to, "may call"));
        }
        for toolset in &outline.toolsets {
            let (to, _) = self.add(Kind::Toolset, toolset, label(toolset, "toolset", &[]));
            self.arrows.push((at, to, "may call"));
        }
        if !outline.team.is_empty() {
            self.team(outline, at);
        }
        at
    }

    /// Adds the other members of a team and the handoffs between them.
    fn team(&mut self, first: &AgentOutline, at: usize) {
        let drawn: Vec<_> =
            first.team.iter().map(|other| (other, self.agent(other, &[]))).collect();
        let all: Vec<_> = std::iter::once((first, at)).chain(drawn).collect();
        for (outline, from) in &all {
            for target in &outline.handoffs {
                if let Some((_, to)) = all.iter().find(|(other, _)| other.name == *target) {
                    self.arrows.push((*from, *to, TRANSFERS));
                }
            }
        }
    }

    fn tool(&mut self, tool: &ToolOutline) -> usize {
        let marks = tool.marks();
        match (&tool.agent, &tool.workflow) {
            (Some(agent), _) => self.agent(agent, &marks),
            (None, Some(workflow)) => {
                self.add(Kind::Workflow, workflow, label(workflow, "workflow", &marks)).0
            }
            (None, None) => self.add(Kind::Tool, &tool.name, label(&tool.name, "tool", &marks)).0,
        }
    }
}

fn label(name: &str, what: &str, marks: &[String]) -> String {
    let mut label = format!("{name} ({what})");
    for mark in marks {
        let _ = write!(label, "\n{mark}");
    }
    label
}

impl AgentOutline {
    /// Draws the agent as a Mermaid flowchart, which GitHub and many editors can show.
    ///
    /// ```
    /// use agentflow::agent::AgentOutline;
    /// use agentflow::prelude::*;
    /// use agentflow_testing::ScriptedModel;
    ///
    /// /// Pays somebody.
    /// #[tool(approve, scopes(money))]
    /// async fn draw_pay(cents: u32) -> u32 {
    ///     cents
    /// }
    ///
    /// let cashier = Agent::new(ScriptedModel::new([])).name("cashier").tools(tools![draw_pay]);
    /// let boss = Agent::new(ScriptedModel::new([])).name("boss").tools(cashier);
    /// let picture = AgentOutline::of(&boss).to_mermaid();
    /// assert!(picture.contains(r#"["draw_pay (tool)<br/>has effects<br/>needs approval<br/>needs the scope money"]"#));
    /// assert!(picture.contains(r#"(["cashier (agent)<br/>has effects"])"#), "{picture}");
    /// ```
    pub fn to_mermaid(&self) -> String {
        let picture = AgentDiagram::new(self);
        let mut text = String::from("flowchart TD\n");
        for (at, drawn) in picture.boxes.iter().enumerate() {
            let (open, close) = match drawn.kind {
                Kind::Agent => ("([", "])"),
                Kind::Model => ("[(", ")]"),
                Kind::Tool => ("[", "]"),
                Kind::Toolset | Kind::Workflow => ("[[", "]]"),
            };
            let _ = writeln!(text, "    a{at}{open}\"{}\"{close}", escaped(&drawn.label));
        }
        for (from, to, word) in &picture.arrows {
            let arrow = if *word == TRANSFERS { "-.->" } else { "-->" };
            let _ = writeln!(text, "    a{from} {arrow}|\"{word}\"| a{to}");
        }
        text
    }

    /// Draws the agent in Graphviz's DOT language.
    pub fn to_dot(&self) -> String {
        let picture = AgentDiagram::new(self);
        let mut text =
            format!("digraph {:?} {{\n    rankdir=TB;\n    node [shape=box];\n", &*self.name);
        for (at, drawn) in picture.boxes.iter().enumerate() {
            let shape = match drawn.kind {
                Kind::Agent => "oval",
                Kind::Model => "cylinder",
                Kind::Tool => "box",
                Kind::Toolset => "box3d",
                Kind::Workflow => "component",
            };
            let _ = writeln!(text, "    a{at} [label={:?}, shape={shape}];", drawn.label);
        }
        for (from, to, word) in &picture.arrows {
            let style = if *word == TRANSFERS { ", style=dashed" } else { "" };
            let _ = writeln!(text, "    a{from} -> a{to} [label={word:?}{style}];");
        }
        text.push_str("}\n");
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\n', "<br/>")
}
