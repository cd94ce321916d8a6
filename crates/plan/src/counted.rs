//! Counts in messages.

/// Returns a count with its noun in singular or plural: `1 pod`, `2 pods`. The plural of the noun must end with `s`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "pod")), ["0 pods", "1 pod", "2 pods"]);
    }
}
