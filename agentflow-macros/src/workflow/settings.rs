//! Checks the options before a statement, `#[node(..)]` and `#[after(..)]`, against what the statement is. It reads no code.

use syn::Attribute;
use syn::ext::IdentExt;

use super::body::Reader;
use super::model::{Policy, Work};

impl Reader<'_> {
    pub(super) fn check_after(&mut self, policy: &Policy) {
        for after in &policy.after {
            let name = after.unraw().to_string();
            match self.scope.iter().rev().find(|(known, _)| *known == name) {
                Some((_, true)) => {}
                Some((_, false)) => {
                    self.errors
                        .at(after, format!("`{name}` is not a node beside this one; name a node of the same block"));
                }
                None => {
                    let nodes = self.scope.iter().filter(|(_, node)| *node).map(|(name, _)| name.as_str());
                    let hint = crate::errors::nearest(&name, nodes)
                        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    self.errors.at(after, format!("there is no node `{name}` before this one{hint}"));
                }
            }
        }
    }

    pub(super) fn check_policy(&mut self, policy: &Policy, work: &Work, attribute: Option<&Attribute>) {
        let Some(attribute) = attribute else { return };
        let many = matches!(work, Work::Map { .. } | Work::Race(_));
        if let Some(number) = policy.concurrency.as_ref().filter(|_| !many) {
            self.errors.at(number, "`concurrency` is for `map!` and `race!`; remove it, since this is one step");
        }
        if matches!(work, Work::Route(_)) && policy.is_of_step() {
            let message = "an `if` or `match` is not a step; move these options to a `let` in an arm (only `id` and \
                           `#[after(..)]` can be here)";
            self.errors.at(attribute, message);
        }
        if matches!(work, Work::Value(_) | Work::Check(_) | Work::Never(_)) && policy.is_of_step() {
            let message = "nothing is awaited here, so this is a value and not a step; remove these options (only `id` \
                           and `#[after(..)]` can be here)";
            self.errors.at(attribute, message);
        }
        if let Work::Gate { .. } = work
            && (policy.retry.is_some() || policy.approve.is_some() || policy.repeatable.is_some())
        {
            self.errors.at(
                attribute,
                "a gate has no `retry`, `approve` or `repeatable`, since it asks a person once; remove them",
            );
        }
        if policy.route.is_some() {
            self.errors
                .at(attribute, "`on_error = route(..)` needs a single call; move the form into a function of its own");
        }
    }
}
