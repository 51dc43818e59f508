//! The bindings in scope at a place of the body, and what an expression there needs: handles to read, and code to repeat
//! before it. It knows names only, never types.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Expr, ItemMacro, Local, Pat};

use super::code;
use super::model::Borrowed;
use crate::patterns::names;
use crate::scope;

/// The length of the longest tuple with `Reads`.
const MAX_READS: usize = 16;

/// The bindings so far, in the order of the source; a later one shadows an earlier one of its name.
#[derive(Default)]
pub(super) struct Env {
    bindings: Vec<Binding>,
}

struct Binding {
    kind: Kind,
    /// What it binds, as text: to ask the compiler for the text of an identifier is slow, and names are looked up often.
    names: Vec<String>,
    /// The variable with its handle, as text; empty where it has none.
    handle: String,
    /// How many nodes have read it.
    readers: usize,
    /// The names among those that it binds that something below has read.
    read: Vec<String>,
    /// The names among them that are bound as `mut`, and the number of nodes that have read one of those.
    mutable: Vec<Ident>,
    changed: usize,
}

enum Kind {
    /// The context, by the user's name.
    Context(Ident),
    /// A node's output. `name` is what the user calls it, if it is one word; `handle` is the variable with its handle.
    Output { name: Option<Ident>, handle: Ident, node: String },
    /// Names that code gives from others; each reader repeats it.
    View { binds: Vec<Ident>, code: Before, needs: Vec<usize>, meaning: String },
}

/// Code that each reader of a name repeats before its own.
#[derive(Clone)]
pub(super) enum Before {
    Statement(TokenStream),
    /// The reader's code stands in the arm of a `match`, so that what the pattern binds may borrow from temporaries.
    /// `is_changed` is true if it reads a name that is bound as `mut`.
    InMatch {
        value: TokenStream,
        pat: TokenStream,
        is_changed: bool,
    },
    /// The same for the conditions of an `if let`.
    InIf {
        condition: TokenStream,
        is_changed: bool,
    },
}

/// What an expression needs before it.
pub(super) struct Needs {
    /// The variables with the handles to read, each once.
    pub(super) handles: Vec<Ident>,
    /// The variables of the values, one for each handle.
    pub(super) values: Vec<Ident>,
    /// The code before the user's expression.
    pub(super) before: Vec<Before>,
    /// The context's name, if it is read.
    pub(super) context: Option<Ident>,
    /// Variables that are declared `mut` and that a node has read before this one.
    pub(super) changed: Vec<Ident>,
}

impl Env {
    pub(super) fn context(&mut self, ident: Ident) {
        self.push(Kind::Context(ident));
    }

    /// The variable for the handle of a node: the user's name, unless that would shadow another handle.
    pub(super) fn variable(&self, name: &Ident, conditional: bool) -> Ident {
        let text = name.to_string();
        let taken = self.bindings.iter().any(|binding| binding.handle == text);
        // One under `#[cfg(..)]` shadows the others, where it is there.
        match taken && !conditional {
            true => self.hidden(&name.unraw().to_string()),
            false => name.clone(),
        }
    }

    /// A variable that the user cannot name.
    pub(super) fn hidden(&self, name: &str) -> Ident {
        format_ident!("{}_{}", name, self.bindings.len(), span = Span::mixed_site())
    }

    pub(super) fn output(&mut self, name: Option<Ident>, handle: Ident, node: &str) {
        self.push(Kind::Output { name, handle, node: node.to_owned() });
    }

    /// Binds a `let` that is a view of values, which every reader repeats. `one_type` is the variable that gives it the same
    /// type in all of them.
    pub(super) fn view(&mut self, local: &Local, one_type: Option<Ident>, private: &TokenStream) {
        let mut local = local.clone();
        let mut meaning = String::new();
        if let Some(init) = &mut local.init {
            meaning = code::normal(&init.expr, self);
            // A check before it has seen to it that the pattern matches.
            if let Some((_, diverge)) = &mut init.diverge {
                *diverge = syn::parse_quote!({ #private::not_this_arm() });
                meaning.push_str(&code::normal(&local.pat, self));
            }
        }
        let needs = self.resolve(&scope::of_let(&local));
        if let (Some(one_type), Some(init)) = (one_type, &mut local.init) {
            let value = &init.expr;
            init.expr = syn::parse_quote!(#one_type.same(#value));
        }
        self.push(Kind::View { binds: names(&local.pat), code: Before::Statement(quote!(#local)), needs, meaning });
    }

    /// Binds a macro whose rules name variables of the body. Each reader defines it again, so that the rules use its variables.
    pub(super) fn macro_rules(&mut self, rules: &ItemMacro) {
        let needs = self.resolve(&scope::of_macro(&rules.mac));
        let meaning = code::normal(&rules.mac.tokens, self);
        self.push(Kind::View { binds: Vec::new(), code: Before::Statement(quote!(#rules)), needs, meaning });
        if let (Some(last), Some(ident)) = (self.bindings.last_mut(), &rules.ident) {
            last.names.push(scope::macro_name(ident));
        }
    }

    /// Binds a `let` whose value is either recorded by the last node or computed by each reader.
    pub(super) fn look(&mut self, local: &Local, recorded: &Ident, private: &TokenStream) {
        let last = self.bindings.len() - 1;
        let Some(init) = &local.init else { return };
        let (attrs, pat, value) = (&local.attrs, &local.pat, &init.expr);
        let meaning = code::normal(value, self);
        let mut needs = self.resolve(&scope::of_let(local));
        needs.push(last);
        let code = Before::Statement(quote! {
            #(#attrs)* let #pat = match #private::Chosen(#recorded).value() {
                #private::Some(value) => value,
                #private::None => #value,
            };
        });
        self.push(Kind::View { binds: names(pat), code, needs, meaning });
    }

    /// A pattern that destructures the output bound last; with `borrowed`, a reference to it.
    pub(super) fn pattern(&mut self, attrs: &[Attribute], pat: &Pat, handle: &Ident, borrowed: Borrowed) {
        let last = self.bindings.len() - 1;
        let meaning = match &self.bindings[last].kind {
            Kind::Output { node, .. } => format!("@{node}."),
            _ => String::new(),
        };
        let value = borrowed.of(handle);
        let attrs = attrs.iter().filter(|attr| !super::attrs::is_cfg(attr));
        let code = Before::Statement(quote!(#(#attrs)* let #pat = #value;));
        self.push(Kind::View { binds: names(pat), code, needs: vec![last], meaning });
    }

    /// The names of an arm's pattern: `code` matches the router's value again.
    pub(super) fn arm(
        &mut self,
        binds: Vec<Ident>,
        mutable: Vec<Ident>,
        reads: &[String],
        code: Before,
        of: &dyn quote::ToTokens,
    ) {
        let needs = self.resolve(reads);
        let meaning = code::normal(of, self);
        self.push(Kind::View { binds, code, needs, meaning });
        if let Some(last) = self.bindings.last_mut() {
            last.mutable = mutable;
        }
    }

    /// These names, of those bound last, are read by what binds them.
    pub(super) fn is_read(&mut self, names: impl Iterator<Item = String>) {
        if let Some(last) = self.bindings.last_mut().filter(|last| last.mutable.is_empty()) {
            last.read.extend(names);
        }
    }

    fn push(&mut self, kind: Kind) {
        let text = |ident: &Ident| ident.unraw().to_string();
        let (names, handle) = match &kind {
            Kind::Context(ident) => (vec![text(ident)], String::new()),
            Kind::Output { name, handle, .. } => (name.iter().map(text).collect(), handle.to_string()),
            Kind::View { binds, .. } => (binds.iter().map(text).collect(), String::new()),
        };
        let binding = Binding { kind, names, handle, readers: 0, read: Vec::new(), mutable: Vec::new(), changed: 0 };
        self.bindings.push(binding);
    }

    /// The beginning of a scope, for [`leave`](Self::leave).
    pub(super) fn enter(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn leave(&mut self, outside: usize) {
        self.bindings.truncate(outside);
    }

    /// How often each binding so far has been read, for [`read_since`](Self::read_since).
    pub(super) fn readers(&self) -> Vec<usize> {
        self.bindings.iter().map(|binding| binding.readers).collect()
    }

    /// The variables of the outputs that have been read more often than then, each once.
    pub(super) fn read_since(&self, then: &[usize]) -> Vec<Ident> {
        let mut handles: Vec<Ident> = Vec::new();
        for (binding, before) in self.bindings.iter().zip(then) {
            if let Kind::Output { handle, .. } = &binding.kind
                && binding.readers > *before
                && !handles.contains(handle)
            {
                handles.push(handle.clone());
            }
        }
        handles
    }

    /// Whether a name is bound in the body, and so is not an item outside of it.
    pub(super) fn is_local(&self, name: &str) -> bool {
        self.lookup(name).is_some()
    }

    /// What a variable means, whatever it is called: the node that it is the output of, or the code that it stands for.
    pub(super) fn meaning(&self, name: &str) -> Option<String> {
        let binding = &self.bindings[self.lookup(name)?];
        Some(match &binding.kind {
            Kind::Context(_) => "@@".to_owned(),
            Kind::Output { node, .. } => format!("@{node}"),
            Kind::View { meaning, .. } => {
                let place = binding.names.iter().position(|bind| bind == name).unwrap_or_default();
                format!("({meaning}){place}")
            }
        })
    }

    /// The handle of a name that a node waits for: of a node, or of the node whose output a pattern destructures.
    pub(super) fn handle(&mut self, name: &str) -> Option<Ident> {
        let at = self.lookup(name)?;
        self.bindings[at].read.push(name.to_owned());
        match &self.bindings[at].kind {
            Kind::Output { handle, .. } => Some(handle.clone()),
            Kind::View { needs, .. } => match &self.bindings[*needs.first()?].kind {
                Kind::Output { name: None, handle, .. } => Some(handle.clone()),
                _ => None,
            },
            Kind::Context(_) => None,
        }
    }

    /// A node reads the output of a name.
    pub(super) fn read_output(&mut self, name: &str) -> Option<Ident> {
        let at = self.lookup(name)?;
        match &self.bindings[at].kind {
            Kind::Output { handle, .. } => {
                let handle = handle.clone();
                self.bindings[at].readers += 1;
                Some(handle)
            }
            _ => None,
        }
    }

    fn lookup(&self, name: &str) -> Option<usize> {
        self.bindings.iter().rposition(|binding| binding.names.iter().any(|bound| bound == name))
    }

    /// The bindings of names that something reads.
    fn resolve(&mut self, names: &[String]) -> Vec<usize> {
        let mut found = Vec::new();
        for name in names {
            if let Some(at) = self.lookup(name) {
                self.bindings[at].read.push(name.clone());
                found.push(at);
            }
        }
        found
    }

    /// What the bindings since a place need that bind a name which nothing reads, for the compiler's check of them.
    pub(super) fn unread(&mut self, since: usize) -> Option<Needs> {
        let unread: Vec<usize> = (since..self.bindings.len())
            .filter(|at| match &self.bindings[*at].kind {
                Kind::View { binds, .. } => {
                    let Binding { readers, read, .. } = &self.bindings[*at];
                    *readers == 0 || binds.iter().any(|name| !read.contains(&name.unraw().to_string()))
                }
                // Of a name that is bound again, the handle has another name, and the compiler does not see the user's.
                Kind::Output { name: Some(name), handle, .. } => {
                    let Binding { readers, read, .. } = &self.bindings[*at];
                    name != handle && *readers == 0 && read.is_empty()
                }
                _ => false,
            })
            .collect();
        (!unread.is_empty()).then(|| self.needed(&unread, &[], &unread))
    }

    /// What an expression with these free names needs.
    pub(super) fn needs(&mut self, names: &[String]) -> Needs {
        let read = self.resolve(names);
        self.needed(&read, names, &[])
    }

    /// The code of views in `loud` is written without `allow`, so that the compiler warns about unused names.
    fn needed(&mut self, read: &[usize], names: &[String], loud: &[usize]) -> Needs {
        let mut open = read.to_vec();
        let mut wanted = vec![false; self.bindings.len()];
        let mut in_view = wanted.clone();
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut wanted[at], true) {
                continue;
            }
            let binding = &mut self.bindings[at];
            binding.readers += usize::from(loud.is_empty());
            if let Kind::View { needs, .. } = &binding.kind {
                needs.iter().for_each(|need| in_view[*need] = true);
                open.extend(needs);
            }
        }
        let wanted: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at]).collect();
        let (mut changed, mut changing) = (Vec::new(), Vec::new());
        for at in wanted.iter().filter(|_| loud.is_empty()) {
            let binding = &mut self.bindings[*at];
            let is_read = |name: &&Ident| in_view[*at] || names.contains(&name.unraw().to_string());
            if let Some(name) = binding.mutable.iter().find(is_read) {
                binding.changed += 1;
                changing.push(*at);
                changed.extend((binding.changed == 2).then(|| name.clone()));
            }
        }
        // When a name is bound twice, each value gets the name at its place in the order of the source.
        let mut seen = Vec::new();
        let mut twice = false;
        for at in &wanted {
            for name in self.names(*at) {
                twice |= seen.contains(&name);
                seen.push(name);
            }
        }
        let mut needs = Needs { handles: Vec::new(), values: Vec::new(), before: Vec::new(), context: None, changed };
        for at in wanted {
            match &self.bindings[at].kind {
                Kind::Context(ident) => needs.context = Some(ident.clone()),
                Kind::Output { name, handle, .. } => {
                    let value = match name {
                        Some(name) if loud.contains(&at) => {
                            let value = format_ident!("value_{}", at, span = Span::mixed_site());
                            needs.before.push(Before::Statement(quote!(let #name = #value;)));
                            value
                        }
                        Some(name) if twice => {
                            let value = format_ident!("value_{}", at, span = Span::mixed_site());
                            let again = quote!(#[allow(unused_variables, unused_mut)] let #name = #value;);
                            needs.before.push(Before::Statement(again));
                            value
                        }
                        Some(name) => name.clone(),
                        None => handle.clone(),
                    };
                    needs.handles.push(handle.clone());
                    needs.values.push(value);
                }
                Kind::View { code, binds, .. } if loud.contains(&at) => {
                    needs.before.push(code.clone());
                    let is_read = |name: &&Ident| self.bindings[at].read.contains(&name.unraw().to_string());
                    let read: Vec<&Ident> = binds.iter().filter(is_read).collect();
                    needs.before.push(Before::Statement(quote!(#(let _ = &#read;)*)));
                }
                Kind::View { code, .. } => needs.before.push(match code {
                    Before::Statement(statement) => {
                        Before::Statement(quote!(#[allow(unused_variables, unused_mut)] #statement))
                    }
                    Before::InMatch { value, pat, .. } => {
                        let (value, pat) = (value.clone(), pat.clone());
                        Before::InMatch { value, pat, is_changed: changing.contains(&at) }
                    }
                    Before::InIf { condition, .. } => {
                        Before::InIf { condition: condition.clone(), is_changed: changing.contains(&at) }
                    }
                }),
            }
        }
        needs
    }

    /// What a binding can be read as; the context is read in its own way.
    fn names(&self, at: usize) -> &[String] {
        match &self.bindings[at].kind {
            Kind::Context(_) => &[],
            _ => &self.bindings[at].names,
        }
    }
}

impl Borrowed {
    /// The item as the pattern gets it.
    pub(super) fn of(self, item: &Ident) -> TokenStream {
        match self {
            Self::No => quote!(#item),
            Self::Whole => quote!(&#item),
            Self::Second => quote!((#item.0, &#item.1)),
        }
    }
}

/// A tuple of any length, as pairs of tuples above the longest that the library has.
pub(super) fn nested(all: &[Ident], tuple: &dyn Fn(&[Ident]) -> TokenStream, and: &TokenStream) -> TokenStream {
    if all.len() <= MAX_READS {
        return tuple(all);
    }
    let (first, rest) = all.split_at(MAX_READS);
    let (first, rest) = (tuple(first), nested(rest, tuple, and));
    match and.is_empty() {
        true => quote!((#first, #rest)),
        false => quote!(#and::And(#first, #rest)),
    }
}

/// The code with what it needs before it.
pub(super) fn after(before: &[Before], private: &TokenStream, code: TokenStream) -> TokenStream {
    let ended = Ident::new("ended", Span::mixed_site());
    before.iter().rev().fold(code, |code, before| match before {
        Before::Statement(statement) => quote!(#statement #code),
        Before::InMatch { value, pat, is_changed } => {
            let unused_mut = (!is_changed).then(|| quote!(unused_mut,));
            quote! {
            #[allow(
                unused_variables, #unused_mut unreachable_patterns, clippy::let_and_return, clippy::single_match_else,
                clippy::match_wildcard_for_single_variants
            )]
            let #ended = match #value { #pat => { #code } _ => #private::not_this_arm() };
            #ended
            }
        }
        Before::InIf { condition, is_changed } => {
            let unused_mut = (!is_changed).then(|| quote!(unused_mut,));
            quote! {
            #[allow(unused_variables, #unused_mut irrefutable_let_patterns, clippy::let_and_return)]
            let #ended = if #condition { #code } else { #private::not_this_arm() };
            #ended
            }
        }
    })
}

/// Whether an expression is the name of one variable.
pub(super) fn as_name(expr: &Expr) -> Option<String> {
    let Expr::Path(path) = super::syntax::plain(expr) else { return None };
    path.path.get_ident().map(|ident| ident.unraw().to_string())
}
