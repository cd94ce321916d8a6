//! The metrics of all pools of a replica as one page in the format of OpenMetrics. Pure functions.

use std::{collections::BTreeMap, fmt::Write};

use longboat_key::Key;

use super::limits::LIMITS;

/// The labels of a pool's series, as the monitors of an installation give them to pickers in pods of their own.
pub(super) struct PoolLabels<'a> {
    pub(super) namespace: &'a str,
    pub(super) service_name: &'a str,
}

/// The metadata and the samples of a metric.
#[derive(Default)]
struct Family {
    metadata: String,
    samples: String,
}

/// The beginning of a label.
const NAMESPACE: &str = "namespace=\"";

/// Merges the pages of pools. All series of a metric follow each other, because Prometheus does not read them otherwise.
pub(super) fn merged<'a>(pages: impl IntoIterator<Item = (PoolLabels<'a>, String)>) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for (labels, page) in pages {
        let labels = self::labels(&labels);
        let mut is_first = false;
        let mut name = "";
        for line in page.lines().filter(|line| *line != "# EOF") {
            if let Some(metadata) = line.strip_prefix("# ") {
                let described = metadata.split(' ').nth(1).unwrap_or_default();
                if described != name {
                    name = described;
                    is_first = !families.contains_key(name);
                }
                let family = families.entry(name.to_owned()).or_default();
                if is_first {
                    family.metadata.push_str(line);
                    family.metadata.push('\n');
                }
            } else if !line.is_empty() {
                let samples = &mut families.entry(name.to_owned()).or_default().samples;
                push_labelled(samples, line, &labels);
            }
        }
    }
    families.into_values().fold(String::new(), |page, family| page + &family.metadata + &family.samples)
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
        let all = merged([(of("one"), page(1)), (of("two"), page(2)), (of("two"), only_here)]);
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
        assert_eq!(all, expected);
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
