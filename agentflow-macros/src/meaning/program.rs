//! Reads a generated program: its plain functions, and the plans of its workflows.

use std::rc::Rc;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{FnArg, ImplItem, ImplItemFn, Item as SynItem, ItemFn, Type};

use super::code::Item;
use super::compile::Compiler;
use super::eval::Interpreter;
use super::generator::syntax::Program;
use super::generator::write;
use super::globals::{Globals, declared, function_item};
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
        let mut functions = Globals::on(kit);
        for function in &functions_of(&write::functions(program, true)) {
            functions.add_function(function_item("", &[], &function.sig, &function.block));
        }
        let mut workflows = Rc::new(Globals::on(kit));
        for function in functions_of(&write::functions(program, false)) {
            let workflow = workflow(function, &workflows, mutation)?;
            Rc::get_mut(&mut workflows).expect("no plan keeps it").add_function(workflow);
        }
        let main = super::value::intern(&program.name);
        let function = Rc::clone(functions.function(main).expect("the program has its function"));
        let of_main = workflows.function(main).expect("the program has its workflow");
        let workflow = Rc::clone(of_main.plan.get().expect("a workflow has a plan"));
        let functions = Rc::new(functions);
        let interpreter =
            Interpreter { globals: Rc::clone(&functions), world: World::new(0, false) };
        let cases = program.cases.iter().map(|case| {
            let inputs = case.iter().map(|input| {
                let expr = syn::parse_str(input).expect("an input is an expression");
                interpreter.constant(&Compiler::default().expr(&expr))
            });
            let context = program.main.takes_context.then_some(Value::Host(Host::Context));
            context.into_iter().chain(inputs).collect()
        });
        let cases = cases.collect();
        Ok(Self { function, functions, workflow, workflows, cases })
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
fn workflow(
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
    let file: syn::File =
        syn::parse2(expansion).unwrap_or_else(|error| panic!("an expansion is no Rust: {error}"));
    let messages = refusals(&file);
    if !messages.is_empty() {
        return Err(messages.join("; "));
    }
    let nodes = nodes_of(&file).expect("an expansion has the function `nodes`");
    let mut compiler = Compiler::default();
    let parameters = nodes.sig.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => compiler.pattern(&input.pat),
        FnArg::Receiver(_) => panic!("`nodes` has no receiver"),
    });
    let parameters = Rc::new(parameters.collect::<Vec<_>>());
    let body = Rc::new(compiler.block(&nodes.block));
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
fn refusals(file: &syn::File) -> Vec<String> {
    let message = |item: &SynItem| match item {
        SynItem::Macro(mac) if mac.mac.path.segments.last()?.ident == "compile_error" => {
            let text: syn::LitStr = syn::parse2(mac.mac.tokens.clone()).ok()?;
            Some(text.value())
        }
        _ => None,
    };
    file.items.iter().filter_map(message).collect()
}

fn nodes_of(file: &syn::File) -> Option<&ImplItemFn> {
    let of_const = file.items.iter().filter_map(|item| match item {
        SynItem::Const(of) => Some(&*of.expr),
        _ => None,
    });
    for expr in of_const {
        let syn::Expr::Block(block) = expr else { continue };
        for statement in &block.block.stmts {
            let syn::Stmt::Item(SynItem::Impl(of)) = statement else { continue };
            for item in &of.items {
                match item {
                    ImplItem::Fn(function) if function.sig.ident == "nodes" => {
                        return Some(function);
                    }
                    _ => {}
                }
            }
        }
    }
    None
}
