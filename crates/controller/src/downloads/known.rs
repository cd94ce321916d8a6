//! The last known state of each service's download.

use std::collections::HashMap;

use longboat_key::Key;
use longboat_plan::Download;
use parking_lot::Mutex;

/// The last known state of each service's download.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    known: Mutex<HashMap<Key, Download>>,
}

// === impl Downloads ===

impl Downloads {
    /// The state of a service's download, if there is one.
    pub(crate) fn of(&self, service: &Key) -> Option<Download> {
        self.known.lock().get(service).cloned()
    }

    /// Forgets a service that is gone.
    pub(crate) fn forget(&self, service: &Key) {
        self.known.lock().remove(service);
    }

    /// Replaces the known states. Returns the services whose state changed.
    pub(super) fn replace(&self, found: HashMap<Key, Download>) -> Vec<Key> {
        let mut known = self.known.lock();
        let changed = found.iter().filter(|(service, download)| known.get(*service) != Some(*download));
        let over = known.keys().filter(|service| !found.contains_key(*service));
        let news = changed.map(|(service, _)| service).chain(over).cloned().collect();
        *known = found;
        news
    }
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};

    use super::*;

    #[test]
    fn a_service_is_told_once_of_what_is_new_and_of_the_end() {
        let downloads = Downloads::default();
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
