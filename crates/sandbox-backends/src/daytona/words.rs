//! Bytes on their way into a shell, through texts that carry none.
//!
//! **Invariant:** what a shell reads here is a quoted word, a name of a variable, or text of this crate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use holm_sandbox::{Result, shell_quote};

/// `bytes` for `printf %b`: text that a shell function turns back into them.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str(r"\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\0{other:03o}")),
        }
    }
    text
}

/// Words of a script, with the lines that have to come before them.
#[derive(Debug, Default)]
pub(super) struct Words {
    before: String,
    count: usize,
}

impl Words {
    /// A word that stands for `value`.
    pub(super) fn word(&mut self, value: &OsStr) -> Result<String> {
        if let Some(text) = value.to_str() {
            return shell_quote(&[text]);
        }
        self.count += 1;
        let name = format!("holm_word_{}", self.count);
        let encoded = shell_quote(&[encode(value.as_bytes())])?;
        self.before
            .push_str(&format!("holm_decode {encoded}; {name}=$holm_word\n"));
        Ok(format!("\"${name}\""))
    }

    /// The lines that make the words, after the prelude.
    pub(super) fn before(&self) -> &str {
        &self.before
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_bytes_arrive(bytes in prop::collection::vec(1_u8.., 0..60)) {
            let mut words = Words::default();
            let word = words.word(OsStr::from_bytes(&bytes)).unwrap();
            let script = format!(
                "{}\n{}printf %s {word}",
                super::super::script::PRELUDE,
                words.before()
            );
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(output.stdout, bytes);
        }
    }
}
