//! The bindings in scope at a place of the body, and what an expression there needs: handles to read, and glue to repeat
//! before it. It knows names only, never types.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Local, Pat};

use crate::patterns::binds;
use crate::scope;

/// The bindings so far, in the order of the source; a later one shadows an earlier one of its name.
#[derive(Default)]
pub(super) struct Env {
    bindings: Vec<Binding>,
}

struct Binding {
    kind: Kind,
    /// Whether a node has read it.
    read: bool,
}

enum Kind {
    /// The context, by the user's name.
    Context(Ident),
    /// A node's output. `name` is what the user calls it, if it is one word; `handle` is the variable with its handle.
    Output { name: Option<Ident>, handle: Ident },
    /// Names that `statement` computes from others.
    Glue { binds: Vec<Ident>, statement: TokenStream, needs: Vec<usize> },
}

/// What an expression needs before it.
pub(super) struct Needs {
    /// The variables with the handles to read, each once.
    pub(super) handles: Vec<Ident>,
    /// The variables of the values, one for each handle.
    pub(super) values: Vec<Ident>,
    /// The statements before the user's expression.
    pub(super) before: TokenStream,
    /// The context's name, if it is read.
    pub(super) context: Option<Ident>,
}

impl Env {
    pub(super) fn context(&mut self, ident: Ident) {
        self.push(Kind::Context(ident));
    }

    /// The variable for the handle of a node: the user's name, unless that would shadow another handle.
    pub(super) fn variable(&self, name: &Ident) -> Ident {
        let taken =
            self.bindings.iter().any(|binding| matches!(&binding.kind, Kind::Output { handle, .. } if handle == name));
        match taken {
            true => self.hidden(&name.unraw().to_string()),
            false => name.clone(),
        }
    }

    /// A variable that the user cannot name.
    pub(super) fn hidden(&self, name: &str) -> Ident {
        format_ident!("{}_{}", name, self.bindings.len(), span = Span::mixed_site())
    }

    pub(super) fn output(&mut self, name: Option<Ident>, handle: Ident) {
        self.push(Kind::Output { name, handle });
    }

    /// A `let` without a step, which every reader repeats.
    pub(super) fn glue(&mut self, local: &Local) {
        let needs = self.resolve(&scope::of_let(local));
        self.push(Kind::Glue { binds: binds(&local.pat), statement: quote!(#local), needs });
    }

    /// A pattern that destructures the output bound last.
    pub(super) fn pattern(&mut self, attrs: &[Attribute], pat: &Pat, handle: &Ident) {
        let needs = vec![self.bindings.len() - 1];
        self.push(Kind::Glue { binds: binds(pat), statement: quote!(#(#attrs)* let #pat = #handle;), needs });
    }

    /// The names of an arm's pattern: `statement` matches the router's value again.
    pub(super) fn arm(&mut self, binds: Vec<Ident>, reads: &[String], statement: TokenStream) {
        let needs = self.resolve(reads);
        self.push(Kind::Glue { binds, statement, needs });
    }

    fn push(&mut self, kind: Kind) {
        self.bindings.push(Binding { kind, read: false });
    }

    /// The beginning of a scope, for [`leave`](Self::leave).
    pub(super) fn enter(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn leave(&mut self, outside: usize) {
        self.bindings.truncate(outside);
    }

    /// Whether a name is bound in the body, and so is not an item outside of it.
    pub(super) fn is_local(&self, name: &str) -> bool {
        self.lookup(name).is_some()
    }

    /// Whether a name is a node's whole output.
    pub(super) fn is_output(&self, name: &str) -> bool {
        self.lookup(name).is_some_and(|at| matches!(self.bindings[at].kind, Kind::Output { .. }))
    }

    /// The handle of a name: of a node, or of the node whose output a pattern destructures.
    pub(super) fn handle(&self, name: &str) -> Option<&Ident> {
        match &self.bindings[self.lookup(name)?].kind {
            Kind::Output { handle, .. } => Some(handle),
            Kind::Glue { needs, .. } => match &self.bindings[*needs.first()?].kind {
                Kind::Output { name: None, handle } => Some(handle),
                _ => None,
            },
            Kind::Context(_) => None,
        }
    }

    fn lookup(&self, name: &str) -> Option<usize> {
        let is = |ident: &Ident| ident.unraw() == name;
        self.bindings.iter().rposition(|binding| match &binding.kind {
            Kind::Context(ident) => is(ident),
            Kind::Output { name, .. } => name.as_ref().is_some_and(is),
            Kind::Glue { binds, .. } => binds.iter().any(is),
        })
    }

    fn resolve(&self, names: &[String]) -> Vec<usize> {
        names.iter().filter_map(|name| self.lookup(name)).collect()
    }

    /// The glue since a place that no node has read. It is written once all the same, so that the compiler checks it.
    pub(super) fn unread(&self, since: usize) -> Vec<usize> {
        (since..self.bindings.len())
            .filter(|at| !self.bindings[*at].read && matches!(self.bindings[*at].kind, Kind::Glue { .. }))
            .collect()
    }

    /// What an expression with these free names needs. Glue in `unread` is added without `allow`, so that the compiler
    /// warns about unused names.
    pub(super) fn needs(&mut self, names: &[String], unread: &[usize]) -> Needs {
        let mut wanted = vec![false; self.bindings.len()];
        let mut open = self.resolve(names);
        open.extend(unread);
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut wanted[at], true) {
                continue;
            }
            self.bindings[at].read = true;
            if let Kind::Glue { needs, .. } = &self.bindings[at].kind {
                open.extend(needs);
            }
        }
        let wanted: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at]).collect();
        // When a name is bound twice, each value gets the name at its place in the order of the source.
        let mut seen = Vec::new();
        let mut twice = false;
        for at in &wanted {
            for name in self.names(*at) {
                twice |= seen.contains(&name);
                seen.push(name);
            }
        }
        let mut needs = Needs { handles: Vec::new(), values: Vec::new(), before: TokenStream::new(), context: None };
        for at in wanted {
            match &self.bindings[at].kind {
                Kind::Context(ident) => needs.context = Some(ident.clone()),
                Kind::Output { name, handle } => {
                    let value = match name {
                        Some(name) if twice => {
                            let value = format_ident!("value_{}", at, span = Span::mixed_site());
                            needs.before.extend(quote!(#[allow(unused_variables, unused_mut)] let #name = #value;));
                            value
                        }
                        Some(name) => name.clone(),
                        None => handle.clone(),
                    };
                    needs.handles.push(handle.clone());
                    needs.values.push(value);
                }
                Kind::Glue { statement, .. } => {
                    let quiet = (!unread.contains(&at)).then(|| quote!(#[allow(unused_variables, unused_mut)]));
                    needs.before.extend(quote!(#quiet #statement));
                }
            }
        }
        needs
    }

    fn names(&self, at: usize) -> Vec<String> {
        match &self.bindings[at].kind {
            Kind::Output { name, .. } => name.iter().map(|name| name.unraw().to_string()).collect(),
            Kind::Glue { binds, .. } => binds.iter().map(|name| name.unraw().to_string()).collect(),
            Kind::Context(_) => Vec::new(),
        }
    }
}
