//! The label sets of children.

use std::collections::BTreeMap;

use longboat_api::labels::{
    COMPONENT, KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, NAME, PART_OF, PART_OF_VALUE,
};
use longboat_key::Name;

/// Labels, annotations or a selector.
pub(crate) type Map = BTreeMap<String, String>;

/// The labels of every child of a service with this component.
pub(crate) fn of(component: &str, service: Name<&str>) -> Map {
    map([(COMPONENT, component), (NAME, &service), (PART_OF, PART_OF_VALUE)])
}

/// The labels of the pods that serve, in every topology.
pub(crate) fn workload_selector(service: Name<&str>) -> Map {
    map([(NAME, &service), (PART_OF, PART_OF_VALUE), (KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD)])
}

pub(crate) fn map<const N: usize>(pairs: [(&str, &str); N]) -> Map {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
