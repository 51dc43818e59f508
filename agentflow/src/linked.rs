//! The functions of the program with one of our attributes, collected by the linker.
//!
//! It knows nothing of tools, agents and workflows; each of them reads its own kind from here.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;

/// A function with one of our attributes: its identity, and what the attribute made of it.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Linked {
    /// The type of the function.
    pub function: fn() -> TypeId,
    /// A `ToolRef`, a `&'static AgentDefinition` or a `LinkedWorkflow`.
    pub item: fn() -> Box<dyn Any>,
}

inventory::collect!(Linked);

impl fmt::Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linked").finish_non_exhaustive()
    }
}

/// The identity of a function: its type.
#[doc(hidden)]
pub fn function_id<F>(_: &F) -> TypeId {
    typeid::of::<F>()
}

/// Everything that is linked into the program, with the identity of its function.
pub(crate) fn all() -> impl Iterator<Item = (TypeId, Box<dyn Any>)> {
    inventory::iter::<Linked>.into_iter().map(|linked| ((linked.function)(), (linked.item)()))
}

/// What is linked of one kind, ordered by name and place: link order is not stable, and with an order of ours the same
/// two places are named every time.
pub(crate) fn items<T: Any, K: Ord>(key: impl Fn(&T) -> K) -> Vec<T> {
    let mut items: Vec<T> = all().filter_map(|(_, item)| item.downcast().ok()).map(|item| *item).collect();
    items.sort_by_key(key);
    items
}

/// The same by name; or two that have one name.
pub(crate) fn by_name<T: Any, K: Ord>(
    key: impl Fn(&T) -> K,
    name: impl Fn(&T) -> &'static str,
) -> Result<BTreeMap<&'static str, T>, (T, T)> {
    let mut all = BTreeMap::new();
    for item in items(key) {
        let name = name(&item);
        match all.remove(name) {
            Some(first) => return Err((first, item)),
            None => drop(all.insert(name, item)),
        }
    }
    Ok(all)
}
