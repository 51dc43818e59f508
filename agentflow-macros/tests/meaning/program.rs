//! Reads a generated program: its plain functions, and the plans of its workflows.

use std::rc::Rc;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::token::Brace;
use syn::{Block, FnArg, Item as SynItem, ItemFn, Token, Type};

use super::compile::Compiler;
use super::eval::Interpreter;
use super::generator::syntax::Program;
use super::generator::write;
use super::globals::{Globals, declared, function_item};
use super::interpreted_code::Item;
use super::plan::Plan;
use super::types::Ty;
use super::value::{Closure, Host, Name, Value};
use super::world::World;
use crate::workflow::mutations::Mutation;

/// A program that can be interpreted.
pub(super) struct Interpreted {
    pub(super) function: Rc<Item>,
    pub(super) functions: Rc<Globals>,
    pub(super) workflow: Rc<Plan>,
    pub(super) workflows: Rc<Globals>,
    /// Arguments of the function in each case.
    pub(super) cases: Vec<Vec<Value>>,
}

impl Interpreted {
    /// Reads a program.
    ///
    /// # Errors
    /// Returns the messages of the macro if it refuses the program.
    pub(super) fn read(
        program: &Program,
        kit: &Rc<Globals>,
        mutation: Option<Mutation>,
    ) -> Result<Self, String> {
        let texts = [true, false].map(|is_plain| write::functions(program, is_plain));
        let mut read = Self::read_texts(&program.name, &texts, kit, mutation)?;
        read.cases = read.inputs(&program.cases, program.main.takes_context);
        Ok(read)
    }

    /// Reads the texts of a function and of a workflow, each with the functions that it calls.
    pub(super) fn read_texts(
        name: &str,
        [function, workflow]: &[String; 2],
        kit: &Rc<Globals>,
        mutation: Option<Mutation>,
    ) -> Result<Self, String> {
        let mut functions = Globals::on(kit);
        for function in &functions_of(function) {
            functions.add_function(function_item("", &[], &function.sig, &function.block));
        }
        let mut workflows = Rc::new(Globals::on(kit));
        for function in functions_of(workflow) {
            let workflow = expanded(function, &workflows, mutation)?;
            Rc::get_mut(&mut workflows).expect("no plan keeps it").add_function(workflow);
        }
        let main = super::value::intern(name);
        let function = Rc::clone(functions.function(main).expect("the program has its function"));
        let of_main = workflows.function(main).expect("the program has its workflow");
        let workflow = Rc::clone(of_main.plan.get().expect("a workflow has a plan"));
        let functions = Rc::new(functions);
        Ok(Self { function, functions, workflow, workflows, cases: Vec::new() })
    }

    /// Evaluates inputs, which are expressions.
    pub(super) fn inputs(&self, cases: &[Vec<String>], takes_context: bool) -> Vec<Vec<Value>> {
        let (globals, world) = (Rc::clone(&self.functions), World::new(0, false));
        let interpreter = Interpreter { globals, world };
        let cases = cases.iter().map(|case| {
            let inputs = case.iter().map(|input| {
                let expr = syn::parse_str(input).expect("an input is an expression");
                interpreter.constant(&Compiler::default().expr(&expr))
            });
            let context = takes_context.then_some(Value::Host(Host::Context));
            context.into_iter().chain(inputs).collect()
        });
        cases.collect()
    }
}

/// Returns the functions in the module that the generator writes.
fn functions_of(text: &str) -> Vec<ItemFn> {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let Some(SynItem::Mod(module)) = file.items.into_iter().next() else { panic!("no module") };
    let (_, items) = module.content.expect("the module has items");
    let function = |item| match item {
        SynItem::Fn(function) => Some(function),
        _ => None,
    };
    items.into_iter().filter_map(function).collect()
}

/// Expands a function with the attribute, and builds its plan.
fn expanded(
    mut function: ItemFn,
    globals: &Rc<Globals>,
    mutation: Option<Mutation>,
) -> Result<Item, String> {
    let attrs = std::mem::take(&mut function.attrs);
    let options = match attrs.first().map(|attr| &attr.meta) {
        Some(syn::Meta::List(list)) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let signature = function.sig.clone();
    let expansion =
        crate::workflow::mutations::expand(options, function.into_token_stream(), mutation);
    let messages = refusals(expansion.clone());
    if !messages.is_empty() {
        return Err(messages.join("; "));
    }
    let [parameters, body] = nodes_of(expansion).expect("an expansion has the function `nodes`");
    let mut compiler = Compiler::default();
    let inputs = Punctuated::<FnArg, Token![,]>::parse_terminated;
    let inputs = inputs.parse2(parameters).expect("`nodes` has parameters");
    let parameters = inputs.iter().map(|input| match input {
        FnArg::Typed(input) => compiler.pattern(&input.pat),
        FnArg::Receiver(_) => panic!("`nodes` has no receiver"),
    });
    let parameters = Rc::new(parameters.collect::<Vec<_>>());
    let block = Block::parse_within.parse2(body);
    let stmts = block.unwrap_or_else(|error| panic!("an expansion is no Rust: {error}"));
    let body = Rc::new(compiler.block(&Block { brace_token: Brace::default(), stmts }));
    let nodes =
        Value::Closure(Rc::new(Closure { parameters, body, captured: Vec::new(), error: "Fault" }));
    let inputs: Vec<(Name, Ty)> = signature
        .inputs
        .iter()
        .filter_map(|input| match input {
            FnArg::Typed(input) if !matches!(*input.ty, Type::Reference(_)) => {
                let name = super::value::intern(&input.pat.to_token_stream().to_string());
                Some((name, Ty::from_syntax(&input.ty)))
            }
            _ => None,
        })
        .collect();
    let interpreter = Interpreter { globals: Rc::clone(globals), world: World::new(0, false) };
    let plan = super::builder::build(&interpreter, &nodes, &inputs)?;
    let item = Item { is_workflow: true, ..declared("", &signature) };
    let _ = item.plan.set(Rc::new(plan));
    Ok(item)
}

/// Returns the messages of the `compile_error!`s in an expansion.
fn refusals(expansion: TokenStream) -> Vec<String> {
    let (mut messages, mut is_error) = (Vec::new(), false);
    for token in expansion {
        match token {
            TokenTree::Ident(ident) => is_error = ident == "compile_error",
            TokenTree::Group(group) if std::mem::take(&mut is_error) => {
                let text = syn::parse2::<syn::LitStr>(group.stream());
                messages.extend(text.ok().map(|text| text.value()));
            }
            _ => {}
        }
    }
    messages
}

/// Returns the parameters and the body of the function `nodes`.
fn nodes_of(tokens: TokenStream) -> Option<[TokenStream; 2]> {
    let (mut last, mut parameters) = (String::new(), None);
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if last == "fn" && ident == "nodes" => {
                last = "nodes".to_owned();
            }
            TokenTree::Ident(ident) => last = ident.to_string(),
            TokenTree::Group(group) if last == "nodes" => {
                parameters = Some(group.stream());
                last.clear();
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => match parameters {
                Some(parameters) => return Some([parameters, meaningful(group.stream())]),
                None => {
                    if let Some(found) = nodes_of(group.stream()) {
                        return Some(found);
                    }
                }
            },
            _ => {}
        }
    }
    None
}

/// Removes attributes and the path of the library, which have no meaning here. Parsing them takes
/// half of the time.
fn meaningful(tokens: TokenStream) -> TokenStream {
    let mut all: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let is_mark = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == '#');
        match token {
            TokenTree::Group(group) => {
                if group.delimiter() == Delimiter::Bracket && is_mark(all.last()) {
                    all.pop();
                    continue;
                }
                let inner = meaningful(group.stream());
                all.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
            }
            // `:: agentflow :: __private`
            TokenTree::Ident(ident)
                if ident == "__private"
                    && all.len() >= 5
                    && matches!(&all[all.len() - 3], TokenTree::Ident(of) if of == "agentflow") =>
            {
                all.truncate(all.len() - 5);
                all.push(TokenTree::Ident(ident));
            }
            other => all.push(other),
        }
    }
    all.into_iter().collect()
}
