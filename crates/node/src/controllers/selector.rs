//! Label selectors of Services.

use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Whether a Service's selector matches. An empty selector matches nothing.
pub(super) fn matches(selector: Option<&Labels>, labels: Option<&Labels>) -> bool {
    selector.is_some_and(|selector| {
        !selector.is_empty()
            && selector.iter().all(|(key, wanted)| labels.and_then(|labels| labels.get(key)) == Some(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_to_match_and_there_has_to_be_one() {
        let labels: Labels = [("a", "1"), ("b", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let one: Labels = [("a".to_owned(), "1".to_owned())].into();
        let other: Labels = [("a".to_owned(), "2".to_owned())].into();
        assert!(matches(Some(&one), Some(&labels)));
        assert!(!matches(Some(&other), Some(&labels)) && !matches(Some(&one), None));
        assert!(!matches(None, Some(&labels)) && !matches(Some(&Labels::new()), Some(&labels)));
    }
}
