//! What the pods of each service reported last. Pods are asked concurrently with reconciles, so a pod that does not respond
//! blocks none, and a report writes a service's status at most once per period.

use std::collections::HashMap;

use longboat_key::Key;
use parking_lot::Mutex;

/// The last reports by service: of a download, or of adapters.
#[derive(Debug)]
pub(crate) struct PodReports<T> {
    known: Mutex<HashMap<Key, T>>,
}

impl<T> Default for PodReports<T> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

// === impl PodReports ===

impl<T: Clone + PartialEq> PodReports<T> {
    /// The report of a service, if there is one.
    pub(crate) fn of(&self, service: &Key) -> Option<T> {
        self.known.lock().get(service).cloned()
    }

    /// Forgets a service that is gone.
    pub(crate) fn forget(&self, service: &Key) {
        self.known.lock().remove(service);
    }

    /// Replaces everything. Returns the services of which something changed.
    pub(crate) fn replace(&self, found: HashMap<Key, T>) -> Vec<Key> {
        let mut known = self.known.lock();
        let changed = found.iter().filter(|(service, report)| known.get(*service) != Some(*report));
        let over = known.keys().filter(|service| !found.contains_key(*service));
        let news = changed.map(|(service, _)| service).chain(over).cloned().collect();
        *known = found;
        news
    }
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};
    use longboat_plan::Download;

    use super::*;

    #[test]
    fn a_service_is_told_once_of_what_is_new_and_of_the_end() {
        let downloads = PodReports::default();
        let llm = Key::new(Namespace("ns"), Name("llm"));
        let one = |text: &str| HashMap::from([(llm.clone(), Download::Progress(text.to_owned()))]);
        assert_eq!(downloads.replace(one("a")), std::slice::from_ref(&llm));
        assert_eq!(downloads.replace(one("a")), []);
        assert_eq!(downloads.replace(one("b")), std::slice::from_ref(&llm));
        assert_eq!(downloads.replace(HashMap::new()), std::slice::from_ref(&llm));
        assert_eq!(downloads.replace(HashMap::new()), []);
        assert_eq!(downloads.of(&llm), None);
    }
}
