//! The bindings in scope at a position of the body. For an expression, it determines the handles to
//! read and the code to repeat in front. It sees only names, no types.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Expr, ItemMacro, Local, Pat};

use super::code;
use super::model::Borrowed;
use crate::patterns::names;
use crate::scope;

/// Maximum length of a tuple that implements `Reads`.
const MAX_READS: usize = 16;

/// The bindings in source order. A later binding shadows an earlier one with the same name.
#[derive(Default)]
pub(super) struct Env {
    bindings: Vec<Binding>,
}

struct Binding {
    kind: Kind,
    /// The bound names as text. Converting an identifier to text is slow, and names are looked up
    /// often.
    names: Vec<String>,
    /// Variable with the handle, as text; empty if there is no handle.
    handle: String,
    /// Number of nodes that have read the binding.
    readers: usize,
    /// Bound names that later code has read.
    read: Vec<String>,
    /// Bound names that are `mut`.
    mutable: Vec<Ident>,
    /// Number of nodes that have read one of the `mut` names.
    changed: usize,
}

enum Kind {
    /// The context, with the user's name for it.
    Context(Ident),
    /// A node's output. `name` is the user's name, if the pattern is a single name. `handle` is the
    /// variable with its handle.
    Output { name: Option<Ident>, handle: Ident, node: String },
    /// Names that code derives from other names. Each reader repeats the code.
    View { binds: Vec<Ident>, code: Before, needs: Vec<usize>, meaning: String },
}

/// Code that each reader of a name repeats in front of its expression.
#[derive(Clone)]
pub(super) enum Before {
    Statement(TokenStream),
    /// The reader's code is in the arm of a `match`, so that the bindings of the pattern may borrow
    /// from temporaries. `is_changed` is `true` if the code reads a `mut` binding.
    InMatch {
        value: TokenStream,
        pat: TokenStream,
        is_changed: bool,
    },
    /// Like `InMatch`, for the conditions of an `if let`.
    InIf {
        condition: TokenStream,
        is_changed: bool,
    },
}

/// Code and values that an expression needs in front of it.
pub(super) struct ReadRequirements {
    /// Variables with the handles to read, each once.
    pub(super) handles: Vec<Ident>,
    /// Variables of the values, one for each handle.
    pub(super) values: Vec<Ident>,
    /// Code in front of the user's expression.
    pub(super) before: Vec<Before>,
    /// Name of the context, if it is read.
    pub(super) context: Option<Ident>,
    /// Variables that are declared `mut` and that another node has read before.
    pub(super) changed: Vec<Ident>,
}

impl Env {
    pub(super) fn context(&mut self, ident: Ident) {
        self.push(Kind::Context(ident));
    }

    /// Returns the variable for a node's handle: the user's name, unless it would shadow another
    /// handle.
    pub(super) fn variable(&self, name: &Ident, conditional: bool) -> Ident {
        let text = name.to_string();
        let taken = self.bindings.iter().any(|binding| binding.handle == text);
        // A binding under `#[cfg(..)]` is allowed to shadow the others if it is compiled.
        match taken && !conditional {
            true => self.hidden(&name.unraw().to_string()),
            false => name.clone(),
        }
    }

    /// Returns a variable that the user's code cannot name.
    pub(super) fn hidden(&self, name: &str) -> Ident {
        format_ident!("{}_{}", name, self.bindings.len(), span = Span::mixed_site())
    }

    pub(super) fn output(&mut self, name: Option<Ident>, handle: Ident, node: &str) {
        self.push(Kind::Output { name, handle, node: node.to_owned() });
    }

    /// Binds a `let` that is a view of values and is repeated by every reader. `one_type` is a
    /// variable that gives it the same type in all readers.
    pub(super) fn view(&mut self, local: &Local, one_type: Option<Ident>, private: &TokenStream) {
        let mut local = local.clone();
        let mut meaning = String::new();
        if let Some(init) = &mut local.init {
            meaning = code::normal(&init.expr, self);
            // A previous check ensures that the pattern matches.
            if let Some((_, diverge)) = &mut init.diverge {
                *diverge = syn::parse_quote!({ #private::not_this_arm() });
                meaning.push_str(&code::normal(&local.pat, self));
            }
        }
        let needs = self.resolve(&scope::names_read_by_let(&local));
        if let (Some(one_type), Some(init)) = (one_type, &mut local.init) {
            let value = &init.expr;
            init.expr = syn::parse_quote!(#one_type.same(#value));
        }
        self.push(Kind::View {
            binds: names(&local.pat),
            code: Before::Statement(quote!(#local)),
            needs,
            meaning,
        });
    }

    /// Binds a macro whose rules use variables of the body. Each reader defines it again with its
    /// own variables.
    pub(super) fn macro_rules(&mut self, rules: &ItemMacro) {
        let needs = self.resolve(&scope::names_read_by_macro(&rules.mac));
        let meaning = code::normal(&rules.mac.tokens, self);
        self.push(Kind::View {
            binds: Vec::new(),
            code: Before::Statement(quote!(#rules)),
            needs,
            meaning,
        });
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
        let mut needs = self.resolve(&scope::names_read_by_let(local));
        needs.push(last);
        let code = Before::Statement(quote! {
            #(#attrs)* let #pat = match #private::Chosen(#recorded).value() {
                #private::Some(value) => value,
                #private::None => #value,
            };
        });
        self.push(Kind::View { binds: names(pat), code, needs, meaning });
    }

    /// Binds a pattern that destructures the last output. `borrowed` determines if it matches a
    /// reference.
    pub(super) fn pattern(
        &mut self,
        attrs: &[Attribute],
        pat: &Pat,
        handle: &Ident,
        borrowed: Borrowed,
    ) {
        let last = self.bindings.len() - 1;
        let meaning = match &self.bindings[last].kind {
            Kind::Output { node, .. } => format!("@{node}."),
            _ => String::new(),
        };
        let value = borrowed.write_item(handle);
        let attrs = attrs.iter().filter(|attr| !super::attrs::is_cfg(attr));
        let code = Before::Statement(quote!(#(#attrs)* let #pat = #value;));
        self.push(Kind::View { binds: names(pat), code, needs: vec![last], meaning });
    }

    /// Binds the names of an arm's pattern. `code` matches the router's value again.
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

    /// Marks these names of the last binding as read by the code that binds them.
    pub(super) fn is_read(&mut self, names: impl Iterator<Item = String>) {
        if let Some(last) = self.bindings.last_mut().filter(|last| last.mutable.is_empty()) {
            last.read.extend(names);
        }
    }

    fn push(&mut self, kind: Kind) {
        let text = |ident: &Ident| ident.unraw().to_string();
        let (names, handle) = match &kind {
            Kind::Context(ident) => (vec![text(ident)], String::new()),
            Kind::Output { name, handle, .. } => {
                (name.iter().map(text).collect(), handle.to_string())
            }
            Kind::View { binds, .. } => (binds.iter().map(text).collect(), String::new()),
        };
        let binding = Binding {
            kind,
            names,
            handle,
            readers: 0,
            read: Vec::new(),
            mutable: Vec::new(),
            changed: 0,
        };
        self.bindings.push(binding);
    }

    /// Returns the start of a scope, for [`leave`](Self::leave).
    pub(super) fn enter(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn leave(&mut self, outside: usize) {
        self.bindings.truncate(outside);
    }

    /// Returns the number of readers of each binding, for [`read_since`](Self::read_since).
    pub(super) fn readers(&self) -> Vec<usize> {
        self.bindings.iter().map(|binding| binding.readers).collect()
    }

    /// Returns the variables of the outputs that have more readers than in `then`, each once.
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

    /// Returns `true` if a name is bound in the body, so that it is not an item outside of it.
    pub(super) fn is_local(&self, name: &str) -> bool {
        self.lookup(name).is_some()
    }

    /// Returns the meaning of a variable independently of its name: the node whose output it is, or
    /// the code that it is a view of.
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

    /// Returns the handle of the node that a name in `#[after(..)]` refers to. A name in a pattern
    /// refers to the node whose output the pattern destructures.
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

    /// Returns the handle of the output that has this name, and counts a reader.
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

    /// Returns the indices of the bindings of these names, and marks the names as read.
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

    /// Returns the requirements of bindings since `since` with unread names. The compiler then
    /// reports unused variables in them.
    pub(super) fn unread(&mut self, since: usize) -> Option<ReadRequirements> {
        let unread: Vec<usize> = (since..self.bindings.len())
            .filter(|at| match &self.bindings[*at].kind {
                Kind::View { binds, .. } => {
                    let Binding { readers, read, .. } = &self.bindings[*at];
                    *readers == 0
                        || binds.iter().any(|name| !read.contains(&name.unraw().to_string()))
                }
                // A shadowed name has a handle with a different name, so the compiler would not see
                // the user's variable.
                Kind::Output { name: Some(name), handle, .. } => {
                    let Binding { readers, read, .. } = &self.bindings[*at];
                    name != handle && *readers == 0 && read.is_empty()
                }
                _ => false,
            })
            .collect();
        (!unread.is_empty()).then(|| self.needed(&unread, &[], &unread))
    }

    /// Returns the requirements of an expression with these free names.
    pub(super) fn needs(&mut self, names: &[String]) -> ReadRequirements {
        let read = self.resolve(names);
        self.needed(&read, names, &[])
    }

    /// Views in `loud` are written without `allow`, so that the compiler warns about unused names.
    fn needed(&mut self, read: &[usize], names: &[String], loud: &[usize]) -> ReadRequirements {
        let mut open = read.to_vec();
        let mut wanted = vec![false; self.bindings.len()];
        let mut in_view = wanted.clone();
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut wanted[at], true) {
                continue;
            }
            let binding = &mut self.bindings[at];
            // The check for unused variables does not count as a reader.
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
                // Reported once, at the second reader.
                changed.extend((binding.changed == 2).then(|| name.clone()));
            }
        }
        // If a name is bound twice, each value receives the name at its position in the source.
        let mut seen = Vec::new();
        let mut twice = false;
        for at in &wanted {
            for name in self.names(*at) {
                twice |= seen.contains(&name);
                seen.push(name);
            }
        }
        let mut needs = ReadRequirements {
            handles: Vec::new(),
            values: Vec::new(),
            before: Vec::new(),
            context: None,
            changed,
        };
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
                            let again =
                                quote!(#[allow(unused_variables, unused_mut)] let #name = #value;);
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
                    let is_read =
                        |name: &&Ident| self.bindings[at].read.contains(&name.unraw().to_string());
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
                    Before::InIf { condition, .. } => Before::InIf {
                        condition: condition.clone(),
                        is_changed: changing.contains(&at),
                    },
                }),
            }
        }
        needs
    }

    /// Returns the names under which a binding can be read. The context is handled separately.
    fn names(&self, at: usize) -> &[String] {
        match &self.bindings[at].kind {
            Kind::Context(_) => &[],
            _ => &self.bindings[at].names,
        }
    }
}

impl Borrowed {
    /// Generates the item in the form that the pattern receives.
    pub(super) fn write_item(self, item: &Ident) -> TokenStream {
        match self {
            Self::No => quote!(#item),
            Self::Whole => quote!(&#item),
            Self::Second => quote!((#item.0, &#item.1)),
        }
    }
}

/// Generates a tuple of any length. Above the maximum of the library, it is nested in pairs.
pub(super) fn nested(
    all: &[Ident],
    tuple: &dyn Fn(&[Ident]) -> TokenStream,
    and: &TokenStream,
) -> TokenStream {
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

/// Generates the code with its requirements in front.
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

/// Returns the name if an expression is a single variable.
pub(super) fn as_name(expr: &Expr) -> Option<String> {
    let Expr::Path(path) = super::syntax::plain(expr) else { return None };
    path.path.get_ident().map(|ident| ident.unraw().to_string())
}
