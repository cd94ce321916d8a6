//! The picker's version, as declared by the annotations of its pod template.

use thiserror::Error;

/// The annotation on the pod template that says which release of the picker the image is.
pub const ANNOTATION: &str = "app.kubernetes.io/version";

/// Major, minor and patch of a picker, and whether it is the release itself: a pre-release is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u64, u64, u64, bool);

/// A version annotation that is not `X.Y.Z`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to parse version \"{0}\": expected X.Y.Z, for example 0.10.0")]
pub struct VersionError(String);

impl Version {
    /// A release by its numbers.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(major, minor, patch, true)
    }

    /// Parses an annotation. An absent or empty text counts as version 0.0.0.
    ///
    /// # Errors
    /// If the text is not three numbers, with or without a pre-release suffix. A leading `v` is an error too.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Ok(Self::new(0, 0, 0));
        }
        let without_build = text.split('+').next().unwrap_or_default();
        let (release, before) = without_build.split_once('-').unwrap_or((without_build, ""));
        let numbers: Result<Vec<u64>, _> = release.split('.').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([major, minor, patch]) => Ok(Self(*major, *minor, *patch, before.is_empty())),
            _ => Err(VersionError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn three_numbers_are_a_version_and_a_leading_v_is_not() {
        assert_eq!(Version::parse("0.10.0"), Ok(Version::new(0, 10, 0)));
        assert_eq!(Version::parse("1.2.3+build.7"), Ok(Version::new(1, 2, 3)));
        assert_eq!(Version::parse(""), Ok(Version::new(0, 0, 0)));
        assert!(Version::parse("v0.10.0").is_err());
        assert!(Version::new(0, 9, 0) < Version::new(0, 10, 0));
    }

    #[test]
    fn a_pre_release_is_older_than_its_release_and_younger_than_the_one_before() {
        for text in ["0.10.0-rc.1", "0.10.0-rc1+build.7"] {
            let candidate = Version::parse(text).unwrap();
            assert!(candidate < Version::new(0, 10, 0) && candidate > Version::new(0, 9, 9), "{text}");
        }
    }
}
