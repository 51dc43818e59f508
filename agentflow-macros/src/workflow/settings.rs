//! Checks the options of a statement, `#[node(..)]` and `#[after(..)]`, against its kind, and
//! generates the options of a node.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Attribute;
use syn::ext::IdentExt;

use super::body::Reader;
use super::model::{Approve, Policy, Work};
use crate::unanswered::TimeoutAction;

impl Reader<'_> {
    pub(super) fn check_after(&mut self, policy: &Policy) {
        for after in &policy.after {
            let name = after.unraw().to_string();
            match self.scope.iter().rev().find(|(known, _)| *known == name) {
                Some((_, true)) => {}
                Some((_, false)) => {
                    self.errors.at(
                        after,
                        format!(
                            "`{name}` is not a node beside this one; name a node of the same block"
                        ),
                    );
                }
                None => {
                    let nodes =
                        self.scope.iter().filter(|(_, node)| *node).map(|(name, _)| name.as_str());
                    let hint = crate::errors::nearest(&name, nodes)
                        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    self.errors
                        .at(after, format!("there is no node `{name}` before this one{hint}"));
                }
            }
        }
    }

    pub(super) fn check_policy(
        &mut self,
        policy: &Policy,
        work: &Work,
        attribute: Option<&Attribute>,
    ) {
        // Without an attribute, all options have their defaults.
        let Some(attribute) = attribute else { return };
        let many = matches!(work, Work::Map { .. } | Work::Race(_));
        if let Some(number) = policy.concurrency.as_ref().filter(|_| !many) {
            self.errors.at(
                number,
                "`concurrency` is for `map!` and `race!`; remove it, since this is one step",
            );
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
        if let (Work::Gate { .. }, Some(option)) = (work, &policy.tap) {
            self.errors.at(option, "a gate never changes the state; remove `tap`");
        }
        if let Some((option, unanswered)) = &policy.on_timeout {
            let is_gate = matches!(work, Work::Gate { .. });
            if is_gate && policy.timeout_ms.is_none() {
                self.errors
                    .at(option, "this gate waits for its answer for ever; add `timeout = \"7d\"`");
            } else if !is_gate && matches!(unanswered, TimeoutAction::Answer(_)) {
                self.errors.at(
                    option,
                    "this question is answered with a yes or a no; write `deny` or `approve`",
                );
            } else if !is_gate && policy.approve_timeout_ms.is_none() {
                self.errors.at(
                    option,
                    "the question before this node waits for its answer for ever; add `approve_timeout = \"7d\"`",
                );
            }
        }
        if let (Work::Gate { .. }, Some(_)) = (work, policy.approve_timeout_ms) {
            self.errors.at(
                attribute,
                "a gate waits for its answer as long as its `timeout` says; write that option",
            );
        }
        if policy.route.is_some() {
            self.errors
                .at(attribute, "`on_error = route(..)` needs a single call; move the form into a function of its own");
        }
    }
}

impl Policy {
    /// Generates the builder calls that set the policy of a `Node`. The time-out action of a gate
    /// is written with its type.
    pub(super) fn calls(&self, name: &str, private: &TokenStream) -> TokenStream {
        let mut meta = TokenStream::new();
        if let Some(retries) = &self.retry {
            meta.extend(quote!(.retry(#retries)));
        }
        if let Some(timeout_ms) = self.timeout_ms {
            meta.extend(quote!(.timeout(#private::Duration::from_millis(#timeout_ms))));
        }
        if self.skip_on_error {
            meta.extend(quote!(.on_error(#private::OnError::Skip)));
        }
        match &self.approve {
            Some(Approve::Usual) => {
                let question = format!("run `{name}`?");
                meta.extend(quote!(.approve(#question)));
            }
            Some(Approve::Question(question)) => meta.extend(quote!(.approve(#question))),
            None => {}
        }
        if let Some(at_once) = &self.concurrency {
            meta.extend(quote!(.concurrency(#at_once)));
        }
        if let Some(repeatable) = &self.repeatable {
            meta.extend(quote!(.repeatable(#repeatable)));
        }
        if self.tap.is_some() {
            meta.extend(quote!(.tap()));
        }
        if let Some(timeout_ms) = self.approve_timeout_ms {
            meta.extend(quote!(.approve_timeout(#private::Duration::from_millis(#timeout_ms))));
            if let Some((_, TimeoutAction::Word(variant))) = &self.on_timeout {
                meta.extend(quote!(.on_timeout(#private::OnTimeout::#variant)));
            }
        }
        meta
    }
}
