//! The metrics of all pools of a replica as one page in the format of OpenMetrics. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use longboat_key::Key;

use super::limits::LIMITS;

/// The labels of a pool's series, as the monitors of an installation give them to pickers in pods of their own.
pub(super) struct PoolLabels<'a> {
    pub(super) namespace: &'a str,
    pub(super) service_name: &'a str,
}

/// The longest page. Beyond it, the longest metrics are left out: histograms, long before counters and gauges.
pub(super) const MAX_PAGE_BYTES: usize = 64 << 20;

/// The metadata and the samples of a metric.
#[derive(Default)]
struct Family {
    metadata: String,
    samples: String,
}

/// The beginning of a label.
const NAMESPACE: &str = "namespace=\"";

/// Merges the pages of pools. All series of a metric follow each other, because Prometheus does not read them otherwise. Returns the
/// page, and the number of metrics that are left out for all pools because the page would be longer than `limit`: a metric of only
/// some pools would be a wrong sum.
pub(super) fn merged<'a>(
    pages: impl IntoIterator<Item = (PoolLabels<'a>, String)>,
    limit: usize,
) -> (String, usize) {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut omitted: BTreeSet<String> = BTreeSet::new();
    for (labels, page) in pages {
        let labels = self::labels(&labels);
        let mut is_first = false;
        let mut name = "";
        for line in page.lines().filter(|line| *line != "# EOF") {
            let metadata = line.strip_prefix("# ");
            let described = metadata.map_or(name, |metadata| metadata.split(' ').nth(1).unwrap_or_default());
            if described != name {
                name = described;
                is_first = !families.contains_key(name);
            }
            if line.is_empty() || omitted.contains(name) {
                continue;
            }
            let family = families.entry(name.to_owned()).or_default();
            if metadata.is_none() {
                push_labelled(&mut family.samples, line, &labels);
            } else if is_first {
                family.metadata.push_str(line);
                family.metadata.push('\n');
            }
        }
        // After each pool, so that never more than one page beyond the limit is in memory.
        let mut bytes: usize = families.values().map(Family::bytes).sum();
        while bytes > limit
            && let Some((name, longest)) = families.iter().max_by_key(|(_, family)| family.bytes())
        {
            bytes -= longest.bytes();
            let name = name.clone();
            families.remove(&name);
            omitted.insert(name);
        }
    }
    let page =
        families.into_values().fold(String::new(), |page, family| page + &family.metadata + &family.samples);
    (page, omitted.len())
}

impl Family {
    fn bytes(&self) -> usize {
        self.metadata.len() + self.samples.len()
    }
}

/// What was refused to each pool, by limit.
pub(super) fn refusals_page(refusals: &BTreeMap<Key, [u64; 2]>, names: &BTreeMap<Key, String>) -> String {
    let name = "longboat_shared_picker_refusals";
    let mut page = format!("# HELP {name} Requests of a pool beyond its limits\n# TYPE {name} counter\n");
    for (pool, counts) in refusals {
        let Some(service) = names.get(pool) else { continue };
        let labels = labels(&PoolLabels { namespace: &pool.namespace, service_name: service });
        for (limit, count) in LIMITS.iter().zip(counts) {
            writeln!(page, "{name}_total{{{labels},limit=\"{limit}\"}} {count}")
                .expect("writing to a string succeeds");
        }
    }
    page
}

/// Adds a sample with more labels. Some series have a label `namespace`, that of an endpoint: Prometheus calls it `exported_namespace`
/// if the picker has a pod of its own, and refuses a page on which a series has it twice.
fn push_labelled(samples: &mut String, line: &str, labels: &str) {
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let written = match rest.strip_prefix('{') {
        Some(rest) if rest.starts_with('}') => writeln!(samples, "{name}{{{labels}{rest}"),
        Some(rest) => {
            let rest = match rest.strip_prefix(NAMESPACE) {
                Some(rest) => format!("exported_{NAMESPACE}{rest}"),
                // Quotes within values are escaped, so this is a label.
                None => rest.replacen(&format!(",{NAMESPACE}"), &format!(",exported_{NAMESPACE}"), 1),
            };
            writeln!(samples, "{name}{{{labels},{rest}")
        }
        None => writeln!(samples, "{name}{{{labels}}}{rest}"),
    };
    written.expect("writing to a string succeeds");
}

fn labels(of: &PoolLabels<'_>) -> String {
    format!("namespace=\"{}\",service_name=\"{}\"", escaped(of.namespace), escaped(of.service_name))
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_all_pools_follow_each_other_with_the_labels_of_their_services() {
        let page = |ready: u8| {
            format!(
                "# HELP ready Pods.\n# TYPE ready gauge\nready {ready}\n\
                 # HELP seen Requests.\n# TYPE seen counter\nseen_total{{model=\"a b\",namespace=\"x\"}} 1\n# EOF\n"
            )
        };
        let of = |service_name| PoolLabels { namespace: "ns", service_name };
        let only_here = "# TYPE own gauge\nown{} 3\n# EOF\n".to_owned();
        let pages = || [(of("one"), page(1)), (of("two"), page(2)), (of("two"), only_here.clone())];
        let expected = r#"# TYPE own gauge
own{namespace="ns",service_name="two"} 3
# HELP ready Pods.
# TYPE ready gauge
ready{namespace="ns",service_name="one"} 1
ready{namespace="ns",service_name="two"} 2
# HELP seen Requests.
# TYPE seen counter
seen_total{namespace="ns",service_name="one",model="a b",exported_namespace="x"} 1
seen_total{namespace="ns",service_name="two",model="a b",exported_namespace="x"} 1
"#;
        assert_eq!(merged(pages(), 10_000), (expected.to_owned(), 0));
        // A metric is left out for all pools.
        let (short, omitted) = merged(pages(), expected.len() - 1);
        assert!(expected.starts_with(&short) && !short.contains("seen"), "{short}");
        assert_eq!(omitted, 1);
        assert_eq!(merged(pages(), 0), (String::new(), 3));
    }

    #[test]
    fn refusals_have_the_labels_of_their_service_and_their_limit() {
        let key = |name| Key::new(longboat_key::Namespace("ns"), longboat_key::Name(name));
        let refusals = BTreeMap::from([(key("pool"), [1, 2]), (key("gone"), [3, 4])]);
        let names = BTreeMap::from([(key("pool"), "one".to_owned())]);
        let expected = r#"# HELP longboat_shared_picker_refusals Requests of a pool beyond its limits
# TYPE longboat_shared_picker_refusals counter
longboat_shared_picker_refusals_total{namespace="ns",service_name="one",limit="requests"} 1
longboat_shared_picker_refusals_total{namespace="ns",service_name="one",limit="bytes"} 2
"#;
        assert_eq!(refusals_page(&refusals, &names), expected);
    }
}
