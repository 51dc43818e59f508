//! Says which output a `let` would have that cannot be recorded, as far as its spelling shows it: for the compiler's message
//! only, since the output's type decides. It knows no types.

use syn::Expr;

use super::syntax::plain;

/// An output that is often a mistake.
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
    /// The method of the library for a step; a clock has only the one for a value.
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
        Expr::MethodCall(call) if call.args.is_empty() && call.method == "lock" => Some(Judged::Guard),
        Expr::MethodCall(call) if call.args.is_empty() && call.method == "inject" => Some(Judged::Injected),
        Expr::Macro(mac) if mac.mac.path.segments.last().is_some_and(|last| last.ident == "join") => {
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
