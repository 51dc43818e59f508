//! Operands of operators. A type of the program can implement an operator with any code, so the
//! compiler is asked about the types of the operands.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Expr;
use syn::ext::IdentExt;

use super::purity::is_inferred;
use super::syntax::{macro_name, plain};

/// Returns `true` for an operator that a type can implement.
pub(super) fn is_overloadable(op: &syn::BinOp) -> bool {
    !matches!(op, syn::BinOp::And(_) | syn::BinOp::Or(_))
}

/// The form of an operand, which shows if its type is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandForm {
    /// The type is of the standard library: a literal, a conversion between numbers, or an operator
    /// whose own operands are asked about.
    Standard,
    /// The compiler can be asked about the type.
    Asked,
    /// A new value. Its type may be inferred from the operator.
    Constructed,
    Unknown,
}

pub(super) fn operand_form(expr: &Expr) -> OperandForm {
    match plain(expr) {
        Expr::Lit(_) | Expr::Cast(_) | Expr::Binary(_) => OperandForm::Standard,
        Expr::Macro(mac) if macro_name(&mac.mac) == "format" => OperandForm::Standard,
        Expr::Reference(reference) => operand_form(&reference.expr),
        Expr::Unary(unary) => operand_form(&unary.expr),
        Expr::Path(path) => {
            let is_variant_path = path
                .path
                .get_ident()
                .is_none_or(|ident| ident.unraw().to_string().starts_with(char::is_uppercase));
            if is_variant_path { OperandForm::Constructed } else { OperandForm::Asked }
        }
        Expr::Field(_) | Expr::Index(_) => OperandForm::Asked,
        Expr::MethodCall(_) if has_inferred_call(expr) => OperandForm::Unknown,
        Expr::MethodCall(_) => OperandForm::Asked,
        Expr::Call(_)
        | Expr::Struct(_)
        | Expr::Tuple(_)
        | Expr::Array(_)
        | Expr::Macro(_)
        | Expr::Range(_) => OperandForm::Constructed,
        _ => OperandForm::Unknown,
    }
}

/// Returns `true` if the type of a part of a chain of methods is inferred from its use.
pub(super) fn has_inferred_call(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::MethodCall(call) => is_inferred(expr) || has_inferred_call(&call.receiver),
        Expr::Field(field) => has_inferred_call(&field.base),
        Expr::Index(index) => has_inferred_call(&index.expr),
        Expr::Call(_) | Expr::Macro(_) | Expr::Block(_) | Expr::If(_) | Expr::Match(_) => true,
        _ => false,
    }
}

/// Returns an expression with the questions in front, or `None` without questions.
pub(super) fn in_front_of(questions: &[TokenStream], expr: &Expr) -> Option<Expr> {
    if questions.is_empty() {
        return None;
    }
    // The code begins with a parenthesis, so that it can be an operand itself.
    let code = questions.iter().rev().fold(quote!(#expr), |code, asked| quote!((#asked, #code).1));
    syn::parse2(code).ok()
}

/// Returns `true` if a struct with braces is an operand outside of parentheses, so that a condition
/// needs parentheses around the expression.
pub(super) fn has_outer_struct(expr: &Expr) -> bool {
    match expr {
        Expr::Struct(_) => true,
        Expr::Binary(both) => has_outer_struct(&both.left) || has_outer_struct(&both.right),
        Expr::Unary(unary) => has_outer_struct(&unary.expr),
        Expr::Cast(cast) => has_outer_struct(&cast.expr),
        Expr::Field(field) => has_outer_struct(&field.base),
        Expr::Index(index) => has_outer_struct(&index.expr),
        Expr::MethodCall(call) => has_outer_struct(&call.receiver),
        _ => false,
    }
}
