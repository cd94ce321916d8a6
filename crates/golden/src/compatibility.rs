//! The intended differences from the reference: `compatibility.yaml`. The pages of documentation are made from it, and the
//! lists of differences that tests tolerate cite its ids.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde::Deserialize;

/// Differences that belong together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Area {
    /// A short name, for code.
    pub area: String,
    /// The heading.
    pub title: String,
    /// The page that has the area.
    pub page: Page,
    /// With what Longboat is compared.
    #[serde(default = "the_reference")]
    pub reference: String,
    /// A paragraph below the heading.
    pub about: Option<String>,
    /// The differences, in the order of the page.
    pub entries: Vec<Deviation>,
}

/// A page of `docs/compatibility`, beside the first, which has what an operator must know before a take-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// For authors of manifests, and of gateways and pickers.
    Authors,
    /// Everything else.
    Rest,
}

/// An intended difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// What lists and comments cite.
    pub id: String,
    /// What differs.
    pub what: String,
    /// What it means for those who come from the reference.
    pub kind: Kind,
    /// What the reference does.
    pub reference: String,
    /// What Longboat does.
    pub ours: String,
    /// Why, or what a change would cost.
    pub why: String,
    /// For [`Kind::TakeOver`]: what an operator does about it.
    pub action: Option<String>,
}

/// What a difference means for those who come from the reference. The head of `compatibility.yaml` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something that worked changes when Longboat takes over.
    TakeOver,
    /// Longboat refuses, limits or removes more.
    Stricter,
    /// Longboat accepts or carries out more.
    Looser,
    /// The result is another one.
    Different,
    /// Only texts differ.
    Wording,
    /// Longboat lacks it.
    Missing,
    /// No difference, where one would expect it.
    Same,
    /// Kept as it is, although nobody would design it.
    Quirk,
}

const TEXT: &str = include_str!("../../../compatibility.yaml");

static AREAS: LazyLock<Vec<Area>> = LazyLock::new(|| {
    serde_saphyr::from_str(TEXT).unwrap_or_else(|error| panic!("compatibility.yaml: {error}"))
});

static DEVIATIONS: LazyLock<BTreeMap<&'static str, &'static Deviation>> = LazyLock::new(|| {
    AREAS.iter().flat_map(|area| &area.entries).map(|deviation| (deviation.id.as_str(), deviation)).collect()
});

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakeOver => "take-over",
            Self::Stricter => "stricter",
            Self::Looser => "looser",
            Self::Different => "different",
            Self::Wording => "wording",
            Self::Missing => "missing",
            Self::Same => "same",
            Self::Quirk => "quirk",
        })
    }
}

fn the_reference() -> String {
    "reference".to_owned()
}

/// Returns all areas, in the order of the file.
pub fn areas() -> &'static [Area] {
    &AREAS
}

/// Returns the entry that a list of tolerated differences cites. Panics if there is none.
pub fn deviation(id: &str) -> &'static Deviation {
    DEVIATIONS.get(id).unwrap_or_else(|| panic!("compatibility.yaml has no entry `{id}`, which a list cites"))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path, process::Command};

    use super::*;

    fn all() -> impl Iterator<Item = &'static Deviation> {
        areas().iter().flat_map(|area| &area.entries)
    }

    #[test]
    fn no_id_is_defined_twice_and_each_is_plain() {
        let mut seen = BTreeSet::new();
        let names = areas().iter().map(|area| &area.area).chain(all().map(|deviation| &deviation.id));
        let is_plain = |id: &str| {
            id.len() <= 32
                && id.split('-').all(|word| {
                    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
                })
        };
        let wrong: Vec<_> = names.filter(|id| !is_plain(id) || !seen.insert(*id)).collect();
        assert_eq!(wrong, Vec::<&String>::new(), "defined twice, or not short words with `-` between them");
    }

    #[test]
    fn each_entry_says_what_the_reference_does_what_longboat_does_and_why() {
        let lacks = |deviation: &&Deviation| {
            [&deviation.what, &deviation.reference, &deviation.ours, &deviation.why]
                .iter()
                .any(|text| !text.chars().any(char::is_alphabetic))
        };
        let empty: Vec<_> = all().filter(lacks).map(|deviation| &deviation.id).collect();
        assert_eq!(empty, Vec::<&String>::new());
    }

    #[test]
    fn what_changes_at_a_take_over_says_what_to_do_and_nothing_else_does() {
        let wrong =
            all().filter(|deviation| deviation.action.is_some() != (deviation.kind == Kind::TakeOver));
        assert_eq!(wrong.map(|deviation| &deviation.id).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// Lists of tolerated differences call [`deviation`] when they are read. Everything else cites `compatibility.yaml#ID`.
    #[test]
    fn what_comments_and_documents_cite_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pattern = "compatibility\\.yaml#[a-z0-9-]+";
        let found = Command::new("git").args(["grep", "-IohE", pattern]).current_dir(root).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let cited: BTreeSet<&str> = found.lines().filter_map(|line| Some(line.split_once('#')?.1)).collect();
        assert!(cited.len() > 4, "git finds only {cited:?}");
        let unknown: Vec<_> = cited.into_iter().filter(|id| !DEVIATIONS.contains_key(id)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
