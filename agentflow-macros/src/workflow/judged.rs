//! Detects outputs of a `let` that cannot be recorded, by their spelling. The result only selects
//! the compiler's error message; the type decides whether the output is accepted.

use syn::Expr;

use super::syntax::plain;

/// A kind of output that is often a mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// `Instant::now()`
    Clock,
    /// `state.lock().unwrap()`
    Guard,
    /// `cx.inject::<Db>()?`
    Injected,
    /// `join!(a(), b())`
    Joined,
}

impl Judged {
    /// Returns the library's method for a step with this output. A clock only has a method for
    /// values.
    pub(super) fn step(self) -> Option<&'static str> {
        match self {
            Self::Clock => None,
            Self::Guard => Some("guarded_step"),
            Self::Injected => Some("injected_step"),
            Self::Joined => Some("joined_step"),
        }
    }
}

pub(super) fn judged(expr: &Expr) -> Option<Judged> {
    match plain(expr) {
        Expr::Try(tried) => judged(&tried.expr).filter(|found| *found != Judged::Joined),
        Expr::Await(awaited) => judged(&awaited.base).filter(|found| *found == Judged::Guard),
        Expr::MethodCall(call) if call.method == "unwrap" || call.method == "expect" => {
            judged(&call.receiver).filter(|found| matches!(found, Judged::Guard | Judged::Injected))
        }
        Expr::MethodCall(call) if call.args.is_empty() && call.method == "lock" => {
            Some(Judged::Guard)
        }
        Expr::MethodCall(call) if call.args.is_empty() && call.method == "inject" => {
            Some(Judged::Injected)
        }
        Expr::Macro(mac)
            if mac.mac.path.segments.last().is_some_and(|last| last.ident == "join") =>
        {
            Some(Judged::Joined)
        }
        Expr::Call(call) => {
            let Expr::Path(path) = plain(&call.func) else { return None };
            let mut words = path.path.segments.iter().rev().map(|segment| &segment.ident);
            (words.next()? == "now" && words.next()? == "Instant").then_some(Judged::Clock)
        }
        _ => None,
    }
}
