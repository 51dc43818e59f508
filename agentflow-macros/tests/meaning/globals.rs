//! Functions, types and statics that the code of a program can name.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use syn::{Attribute, FnArg, ImplItem, ReturnType, Signature};

use super::compile::{Compiler, name_of, words};
use super::interpreted_code::{Item, Tool};
use super::types::Ty;
use super::value::{Name, intern};

/// Items by name. The items of a program are added to those of the kit.
#[derive(Default)]
pub(super) struct Globals {
    kit: Option<Rc<Globals>>,
    functions: HashMap<Name, Rc<Item>>,
    methods: HashMap<(Name, Name), Rc<Item>>,
    /// Fields of structs and of variants.
    fields: HashMap<(Name, Name), Vec<(Name, Ty)>>,
    statics: HashMap<Name, Ty>,
}

impl Globals {
    /// Reads the functions and types of the kit.
    pub(super) fn of_kit(source: &str) -> Self {
        let file = syn::parse_file(source).expect("the kit is valid Rust");
        let mut globals = Self::default();
        globals.statics.insert("RATE", Ty::Named("AtomicI64"));
        globals.statics.insert("LOCAL", Ty::Named("LocalKey"));
        globals.statics.insert("GAUGE", Ty::Named("Mutex"));
        for item in &file.items {
            globals.add(item);
        }
        globals
    }

    /// Creates the items of a program.
    pub(super) fn on(kit: &Rc<Self>) -> Self {
        Self { kit: Some(Rc::clone(kit)), ..Self::default() }
    }

    fn add(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Fn(function) => {
                let item = function_item("", &function.attrs, &function.sig, &function.block);
                self.add_function(item);
            }
            syn::Item::Struct(of) => {
                let fields = of.fields.iter().map(field).collect();
                self.fields.insert((name_of(&of.ident), ""), fields);
            }
            syn::Item::Enum(of) => {
                for variant in &of.variants {
                    let fields = variant.fields.iter().enumerate().map(|(at, of)| {
                        let name =
                            of.ident.as_ref().map_or_else(|| intern(&at.to_string()), name_of);
                        (name, Ty::from_syntax(&of.ty))
                    });
                    let key = (name_of(&of.ident), name_of(&variant.ident));
                    self.fields.insert(key, fields.collect());
                }
            }
            syn::Item::Static(of) => {
                self.statics.insert(name_of(&of.ident), Ty::from_syntax(&of.ty));
            }
            // Conversions and text forms are known to the interpreter.
            syn::Item::Impl(of)
                if of.trait_.as_ref().is_none_or(|of| {
                    of.0.segments.last().is_some_and(|last| last.ident == "Add")
                }) =>
            {
                let Ty::Named(owner) = Ty::from_syntax(&of.self_ty) else { return };
                for item in &of.items {
                    if let ImplItem::Fn(method) = item {
                        let item = function_item(owner, &method.attrs, &method.sig, &method.block);
                        self.methods.insert((owner, item.name), Rc::new(item));
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn add_function(&mut self, item: Item) {
        self.functions.insert(item.name, Rc::new(item));
    }

    pub(super) fn function(&self, name: Name) -> Option<&Rc<Item>> {
        let of_kit = || self.kit.as_ref()?.function(name);
        self.functions.get(name).or_else(of_kit)
    }

    pub(super) fn method(&self, owner: Name, name: Name) -> Option<&Rc<Item>> {
        let of_kit = || self.kit.as_ref()?.method(owner, name);
        self.methods.get(&(owner, name)).or_else(of_kit)
    }

    pub(super) fn static_type(&self, name: Name) -> Ty {
        match (self.statics.get(name), &self.kit) {
            (Some(ty), _) => ty.clone(),
            (None, Some(kit)) => kit.static_type(name),
            (None, None) => Ty::Unknown,
        }
    }

    pub(super) fn field(&self, of: Name, variant: Name, name: Name) -> Ty {
        if let Some(kit) = &self.kit {
            return kit.field(of, variant, name);
        }
        let fields = self.fields.get(&(of, variant));
        let field = fields.and_then(|fields| fields.iter().find(|(known, _)| *known == name));
        match (field, variant) {
            (Some((_, ty)), _) => ty.clone(),
            // The errors and answers of the library.
            (None, "Lost") => Ty::String,
            _ => Ty::Unknown,
        }
    }

    /// Returns the type that a function of the world returns.
    pub(super) fn native_type(&self, name: Name) -> Ty {
        match name {
            "new_id" | "stamp" | "hashed" | "stripped" | "token" => Ty::String,
            "shared_rate" => Ty::Int,
            "note" | "pace" | "set_shared_rate" | "mark" => Ty::Unit,
            name => panic!("the interpreter does not know the function `{name}`"),
        }
    }
}

fn field(field: &syn::Field) -> (Name, Ty) {
    let name = field.ident.as_ref().map(name_of).unwrap_or_default();
    (name, Ty::from_syntax(&field.ty))
}

/// Compiles a function. `owner` is the type of a method.
pub(super) fn function_item(
    owner: Name,
    attrs: &[Attribute],
    signature: &Signature,
    block: &syn::Block,
) -> Item {
    let body = Rc::new(Compiler::of_type(owner).block(block));
    Item { body: Some(body), tool: tool(attrs), ..declared(owner, signature) }
}

/// Returns a function without its body.
pub(super) fn declared(owner: Name, signature: &Signature) -> Item {
    let mut compiler = Compiler::of_type(owner);
    let gives = match &signature.output {
        ReturnType::Default => Ty::Unit,
        ReturnType::Type(_, ty) => Ty::from_syntax(ty),
    };
    let own = |ty: Ty| match ty {
        Ty::Named("Self") => Ty::Named(owner),
        ty => ty,
    };
    let gives = own(gives);
    let error = match &gives {
        Ty::Result(_, error) => match **error {
            Ty::Named(name) => name,
            Ty::String => "String",
            _ => "Error",
        },
        _ => "",
    };
    let (mut parameters, mut takes) = (Vec::new(), Vec::new());
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(_) => {
                parameters.push(super::interpreted_code::Pattern::Bind("self", None));
                takes.push(Ty::Named(owner));
            }
            FnArg::Typed(input) => {
                parameters.push(compiler.pattern(&input.pat));
                takes.push(Ty::from_syntax(&input.ty));
            }
        }
    }
    Item {
        name: name_of(&signature.ident),
        owner,
        parameters,
        takes,
        gives,
        body: None,
        is_async: signature.asyncness.is_some(),
        error,
        tool: None,
        plan: OnceCell::new(),
        is_workflow: false,
    }
}

fn tool(attrs: &[Attribute]) -> Option<Tool> {
    let attr = attrs.iter().find(|attr| attr.path().is_ident("tool"))?;
    let words = match &attr.meta {
        syn::Meta::List(list) => words(list.tokens.clone()),
        _ => Vec::new(),
    };
    let has = |word: &str| words.iter().any(|known| known == word);
    let reads = has("\"read\"");
    assert!(reads || !has("effects"), "the interpreter does not know the options {words:?}");
    Some(Tool { writes: !reads, reads, idempotent: has("idempotent"), asks: has("approve") })
}
