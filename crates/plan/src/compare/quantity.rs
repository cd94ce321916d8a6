//! Quantities in different notations: `1000m` is `1`, `1024Mi` is `1Gi`.

use longboat_quantity::Quantity;

/// Keys whose value is a quantity, in any object. In resource lists the keys are names of resources.
const KEYS: [&str; 7] = ["cpu", "memory", "ephemeral-storage", "storage", "sizeLimit", "divisor", "pods"];

/// Whether two values of `key` are the same amount.
pub(crate) fn same(a: &str, b: &str, key: &str) -> bool {
    let may_be_quantity = KEYS.contains(&key) || key.contains('/') || key.starts_with("hugepages-");
    may_be_quantity && Quantity::parse(a).is_some_and(|amount| Quantity::parse(b) == Some(amount))
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn notations_of_one_amount_are_the_same() {
        assert!(same("1000m", "1", "cpu"));
        assert!(same("1024Mi", "1Gi", "memory"));
        assert!(same("0.5", "500m", "nvidia.com/gpu"));
        assert!(!same("1", "2", "cpu"));
        assert!(!same("1000m", "1", "image"));
        assert!(!same("x", "y", "cpu"));
    }
}
