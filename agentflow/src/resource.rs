//! What the program gives to its tools by type: clients, pools, configuration.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A tool parameter that the program provides; the model never sees it.
///
/// A resource nobody provided is an error when the agent is built.
///
/// ```
/// use agentflow::prelude::*;
///
/// struct Orders(Vec<&'static str>);
///
/// /// The state of an order.
/// #[tool]
/// fn order_state(orders: Inject<Orders>, number: usize) -> Option<String> {
///     orders.0.get(number).map(|state| (*state).to_owned())
/// }
///
/// // In a test the function is called like any other.
/// assert_eq!(order_state(Inject::new(Orders(vec!["sent"])), 0).as_deref(), Some("sent"));
/// ```
// The field is ours alone, so that `orders.0` is a field of the resource.
pub struct Inject<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> From<Arc<T>> for Inject<T> {
    fn from(shared: Arc<T>) -> Self {
        Self(shared)
    }
}

impl<T> Inject<T> {
    /// Wraps a value, for calling a tool's function directly.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: ?Sized> Deref for Inject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for Inject<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Inject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inject").field(&&*self.0).finish()
    }
}

/// The type of a resource, with its name for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceKey {
    id: TypeId,
    name: &'static str,
}

impl ResourceKey {
    /// The key of a type.
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// The type's name as the compiler gives it.
    pub fn type_name(&self) -> &'static str {
        self.name
    }
}

/// Values by type. Cloning is one reference count.
#[derive(Clone, Default)]
pub struct Resources(Arc<HashMap<TypeId, Entry>>);

#[derive(Clone)]
struct Entry {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl Resources {
    /// Adds a value, or replaces the one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.insert_shared(Arc::new(value));
    }

    /// Adds a shared value, which may be a trait object: `insert_shared::<dyn Db>(db)`.
    pub fn insert_shared<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) {
        let entry = Entry { name: type_name::<T>(), value: Arc::new(value) };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), entry);
    }

    /// The value of a type.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.value.downcast_ref::<Arc<T>>().cloned()
    }

    /// Whether there is a value of this type.
    pub fn contains(&self, key: ResourceKey) -> bool {
        self.0.contains_key(&key.id)
    }

    /// Adds everything of `other`; where both have a type, `other` wins.
    pub fn extend(&mut self, other: &Self) {
        if !other.0.is_empty() {
            Arc::make_mut(&mut self.0).extend(other.0.iter().map(|(id, entry)| (*id, entry.clone())));
        }
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.values().map(|entry| entry.name).collect();
        names.sort_unstable();
        f.debug_tuple("Resources").field(&names).finish()
    }
}
