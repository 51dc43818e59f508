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

/// What is linked of one kind, by name. A name that several have is an error of that name, and of no other.
pub(crate) struct ByName<T> {
    once: BTreeMap<&'static str, T>,
    /// The first two of each name that several have.
    twice: BTreeMap<&'static str, (T, T)>,
}

impl<T> ByName<T> {
    /// The one of a name.
    ///
    /// # Errors
    /// The first two of them, when several have the name.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&T>, &(T, T)> {
        match self.twice.get(name) {
            Some(two) => Err(two),
            None => Ok(self.once.get(name)),
        }
    }

    /// Those whose name no other has, ordered by name.
    pub(crate) fn once(&self) -> impl Iterator<Item = &T> {
        self.once.values()
    }

    /// The first two of each name that several have, ordered by name.
    pub(crate) fn twice(&self) -> impl Iterator<Item = &(T, T)> {
        self.twice.values()
    }

    /// All names; those that several have come last.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.once.keys().chain(self.twice.keys()).copied()
    }
}

/// The same by name.
pub(crate) fn by_name<T: Any, K: Ord>(key: impl Fn(&T) -> K, name: impl Fn(&T) -> &'static str) -> ByName<T> {
    let (mut once, mut twice) = (BTreeMap::new(), BTreeMap::new());
    for item in items(key) {
        let name = name(&item);
        if twice.contains_key(name) {
            continue;
        }
        match once.remove(name) {
            Some(first) => drop(twice.insert(name, (first, item))),
            None => drop(once.insert(name, item)),
        }
    }
    ByName { once, twice }
}
