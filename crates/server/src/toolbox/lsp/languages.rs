//! Which programs serve which language.

use std::path::Path;

/// A language that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Language {
    Python,
    TypeScript,
    JavaScript,
}

impl Language {
    pub(super) const KNOWN: [Self; 3] = [Self::Python, Self::TypeScript, Self::JavaScript];

    pub(super) fn named(id: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|language| language.id() == id)
    }

    /// As the protocol names it.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::JavaScript => "javascript",
        }
    }

    /// Programs that speak the protocol on their standard streams, the one to prefer first.
    pub(super) fn programs(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Python => &[
                &["pylsp"],
                &["basedpyright-langserver", "--stdio"],
                &["pyright-langserver", "--stdio"],
                &["jedi-language-server"],
            ],
            Self::TypeScript | Self::JavaScript => &[&["typescript-language-server", "--stdio"]],
        }
    }

    /// How to get one.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Python => "run `pip install python-lsp-server` in the sandbox",
            Self::TypeScript | Self::JavaScript => {
                "run `npm install -g typescript typescript-language-server` in the sandbox"
            }
        }
    }
}

/// Where programs are looked for: first in the project's own environments, then in the user's, then as everywhere.
pub(super) fn search_path(project: &Path, home: &Path, path: &str) -> String {
    let own = [
        project.join(".venv/bin"),
        project.join("venv/bin"),
        project.join("node_modules/.bin"),
        home.join(".local/bin"),
        home.join(".npm-global/bin"),
    ];
    let mut search: Vec<String> = own
        .iter()
        .map(|folder| folder.to_string_lossy().into_owned())
        .filter(|folder| !folder.contains(':'))
        .collect();
    search.push(path.to_owned());
    search.join(":")
}
