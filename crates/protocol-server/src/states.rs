//! Values for the functions of a toolbox, one of each type.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

/// Values by type.
#[derive(Clone, Default)]
pub(super) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    /// Stores `state`, and replaces an earlier value of the same type.
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, state: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(state));
    }

    pub(super) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}
