//! The registry of `#[tool]`, `#[agent]` and `#[workflow]` functions that the linker collects.
//!
//! The module does not depend on tools, agents or workflows. Each of them reads its items from here
//! by type.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;

/// A function with one of the attributes: its identity and the item that the attribute generated.
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

/// Returns all items that are linked into the program, with the identity of their functions.
pub(crate) fn all() -> impl Iterator<Item = (TypeId, Box<dyn Any>)> {
    inventory::iter::<Linked>.into_iter().map(|linked| ((linked.function)(), (linked.item)()))
}

/// Returns the linked items of type `T`, sorted by `key`. Link order is not stable, so sorting
/// makes error messages reproducible.
pub(crate) fn items<T: Any, K: Ord>(key: impl Fn(&T) -> K) -> Vec<T> {
    let mut items: Vec<T> =
        all().filter_map(|(_, item)| item.downcast().ok()).map(|item| *item).collect();
    items.sort_by_key(key);
    items
}

/// Linked items of one type, by name. A duplicate name is an error only when that name is looked
/// up.
pub(crate) struct ByName<T> {
    once: BTreeMap<&'static str, T>,
    /// The first two items of each duplicate name.
    twice: BTreeMap<&'static str, (T, T)>,
}

impl<T> ByName<T> {
    /// Returns the item with this name.
    ///
    /// # Errors
    /// The first two items with this name, if the name is a duplicate.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&T>, &(T, T)> {
        match self.twice.get(name) {
            Some(two) => Err(two),
            None => Ok(self.once.get(name)),
        }
    }

    /// Returns the items with unique names, sorted by name.
    pub(crate) fn once(&self) -> impl Iterator<Item = &T> {
        self.once.values()
    }

    /// Returns the first two items of each duplicate name, sorted by name.
    pub(crate) fn twice(&self) -> impl Iterator<Item = &(T, T)> {
        self.twice.values()
    }

    /// Returns all names, duplicate names last.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.once.keys().chain(self.twice.keys()).copied()
    }
}

/// Returns the linked items of type `T` by name.
pub(crate) fn by_name<T: Any, K: Ord>(
    key: impl Fn(&T) -> K,
    name: impl Fn(&T) -> &'static str,
) -> ByName<T> {
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
