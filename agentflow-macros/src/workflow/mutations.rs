//! Deliberate faults of the macro, which the tests of the meaning must find. Most change the model
//! between its two halves, and the rest change the expansion.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};

use super::model::{
    Arm, Branch, BranchBody, LambdaBody, Node, RouteHead, Seq, Statement, Work, Workflow,
};

/// A fault of the macro's analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A value that may depend on effects is computed as soon as its inputs are there.
    ImpureAsPure,
    /// A step whose arguments may depend on effects begins as soon as its inputs are there.
    StepsTooEarly,
    /// A step with `write` of its author is one that reads.
    WriteAsRead,
    /// A write is exempt from the order.
    UnorderedWrites,
    /// A check does not hold back the nodes below it.
    ChecksPass,
    /// A value that is computed once is computed again by each reader.
    ValueAsView,
    /// A value that the types decide on is computed again by each reader.
    LookAsView,
    /// The items of a `for` run together.
    ForAsMap,
    /// The items of a map run together although its author limits them.
    ItemsTogether,
    /// A name refers to the first binding of the name.
    OlderBinding,
    /// Nodes below an arm that returns run in any case.
    ReturnsGoOn,
    /// Two neighbours that write change places.
    SwappedWrites,
    /// The arms of a choice with a condition are exchanged.
    SwappedArms,
    /// A part that is computed before a choice is computed in it.
    PartInChoice,
    /// The second branch of a fallback is missing.
    OneBranch,
}

impl Mutation {
    pub(crate) const ALL: [Self; 15] = [
        Self::ImpureAsPure,
        Self::StepsTooEarly,
        Self::WriteAsRead,
        Self::UnorderedWrites,
        Self::ChecksPass,
        Self::ValueAsView,
        Self::LookAsView,
        Self::ForAsMap,
        Self::ItemsTogether,
        Self::OlderBinding,
        Self::ReturnsGoOn,
        Self::SwappedWrites,
        Self::SwappedArms,
        Self::PartInChoice,
        Self::OneBranch,
    ];

    fn change(self, workflow: &mut Workflow) {
        self.seq(&mut workflow.body);
    }

    fn seq(self, seq: &mut Seq) {
        if self == Self::SwappedWrites {
            let writes = |statement: &Statement| matches!(statement, Statement::Node(node) if node.is_statement);
            let at = (1..seq.statements.len())
                .find(|at| writes(&seq.statements[at - 1]) && writes(&seq.statements[*at]));
            if let Some(at) = at {
                seq.statements.swap(at - 1, at);
            }
        }
        for statement in &mut seq.statements {
            match statement {
                Statement::Node(node) => {
                    self.node(node);
                    if let Some(view) = self.view(node) {
                        *statement = view;
                    }
                }
                Statement::Look(node) if self == Self::LookAsView => {
                    if let Some(view) = as_view(node) {
                        *statement = view;
                    }
                }
                _ => {}
            }
        }
        self.node(&mut seq.tail);
    }

    /// Returns the view that replaces a value.
    fn view(self, node: &Node) -> Option<Statement> {
        let is_changed = match self {
            Self::ValueAsView => !node.is_part,
            Self::PartInChoice => node.is_part,
            _ => false,
        };
        as_view(node).filter(|_| is_changed)
    }

    fn node(self, node: &mut Node) {
        match self {
            Self::WriteAsRead => node.policy.write = false,
            Self::UnorderedWrites => node.policy.unordered |= node.is_statement,
            Self::ItemsTogether => node.policy.concurrency = None,
            _ => {}
        }
        match &mut node.work {
            Work::Route(route) => {
                if self == Self::SwappedArms
                    && matches!(route.head, RouteHead::If(_))
                    && route.arms.len() == 2
                    && route.arms.iter().all(|arm| arm.binds.is_empty() && !arm.returns)
                {
                    route.arms.reverse();
                }
                for Arm { body, .. } in &mut route.arms {
                    self.seq(body);
                }
            }
            Work::For { body, .. } => self.seq(body),
            Work::Map { step, .. } | Work::Repeat { step, .. } => {
                if let LambdaBody::Seq(body) = &mut step.step {
                    self.seq(body);
                }
            }
            Work::Race(branches) | Work::Fallback(branches) => {
                if self == Self::OneBranch {
                    branches.truncate(1);
                }
                for Branch { step, .. } in branches {
                    if let BranchBody::Seq(body) = step {
                        self.seq(body);
                    }
                }
            }
            _ => {}
        }
    }

    /// Changes the tokens of an expansion.
    fn rewrite(self, tokens: TokenStream, first: &mut Vec<String>) -> TokenStream {
        let mut all: Vec<TokenTree> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) => {
                    let removed = matches!(
                        (self, last(&all)),
                        (Self::ImpureAsPure, Some("at_its_place" | "at_its_place_unless"))
                            | (Self::StepsTooEarly, Some("after_effects" | "after_effects_unless"))
                            | (Self::StepsTooEarly, Some("at_its_place" | "at_its_place_unless"))
                            | (Self::ChecksPass, Some("checking"))
                    );
                    if removed {
                        // `.name`
                        all.truncate(all.len() - 2);
                        continue;
                    }
                    let inner = self.rewrite(group.stream(), first);
                    all.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
                }
                TokenTree::Ident(ident) => {
                    let is_method =
                        matches!(all.last(), Some(TokenTree::Punct(mark)) if mark.as_char() == '.');
                    all.push(TokenTree::Ident(self.renamed(&ident, is_method, first)));
                }
                other => all.push(other),
            }
        }
        all.into_iter().collect()
    }

    fn renamed(self, ident: &Ident, is_method: bool, first: &mut Vec<String>) -> Ident {
        let name = ident.to_string();
        let new = match (self, name.as_str()) {
            (Self::ForAsMap, "for_each") => "map_body",
            (Self::ReturnsGoOn, "unless") => "always",
            (Self::ChecksPass, "check") if is_method => "value_call",
            (Self::ChecksPass, "never") if is_method => "value",
            // A variable of a name that was bound before, such as `total_7`.
            (Self::OlderBinding, name) => match name.rsplit_once('_') {
                Some((old, number))
                    if number.parse::<usize>().is_ok()
                        && !GENERATED.contains(&old)
                        && first.iter().any(|known| known == old) =>
                {
                    old
                }
                _ => {
                    first.push(name.to_owned());
                    name
                }
            },
            (_, name) => name,
        };
        Ident::new(new, ident.span())
    }
}

/// Variables of the expansion itself.
const GENERATED: [&str; 8] =
    ["told", "bound", "look", "output", "value", "item", "agentflow_call", "agentflow_part"];

/// Returns the name before the next token.
fn last(all: &[TokenTree]) -> Option<&'static str> {
    const NAMES: [&str; 5] = [
        "at_its_place",
        "at_its_place_unless",
        "after_effects",
        "after_effects_unless",
        "checking",
    ];
    match all.last() {
        Some(TokenTree::Ident(ident)) => NAMES.into_iter().find(|name| ident == name),
        _ => None,
    }
}

fn as_view(node: &Node) -> Option<Statement> {
    let (Some(pat @ syn::Pat::Ident(_)), Work::Value(expr)) = (&node.pat, &node.work) else {
        return None;
    };
    let ty = node.ty.as_ref().map(|ty| quote::quote!(: #ty));
    match syn::parse_quote!(let #pat #ty = #expr;) {
        syn::Stmt::Local(local) => Some(Statement::View(local)),
        _ => None,
    }
}

/// Expands a function like the macro with this fault.
pub(crate) fn expand(
    options: TokenStream,
    item: TokenStream,
    mutation: Option<Mutation>,
) -> TokenStream {
    match mutation {
        None => super::expand(options, item),
        Some(mutation) => {
            let expansion =
                super::expand_changed(options, item, |workflow| mutation.change(workflow));
            mutation.rewrite(expansion, &mut Vec::new())
        }
    }
}
