//! The two shapes that all types of this crate have: a struct of fields and an enum of words.

/// Structs as they travel in JSON. Every field may be missing or null and then has its default, so that no client is
/// refused for leaving out what we can do without, and answers of older and newer servers are read alike. Fields that
/// are `Option` are written as null unless they say `skip_serializing_if`.
macro_rules! wire_structs {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident : $type:ty, )*
        }
    )*) => { $(
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(default, deserialize_with = "crate::tolerant::null_is_default")]
                pub $field: $type,
            )*
        }
    )* };
}

/// Enums that travel as a word. A word that this version does not know is kept as it came, in `Unknown`, and is
/// written back unchanged. The first word is the default.
macro_rules! wire_words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$arm_meta:meta])* $arm:ident = $word:literal, )+ }
    ) => {
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        $(#[$meta])*
        pub enum $name {
            $( $(#[$arm_meta])* $arm, )+
            /// A word of another version.
            Unknown(String),
        }

        impl $name {
            /// Every word that this version knows.
            pub const KNOWN: &'static [Self] = &[ $( Self::$arm, )+ ];

            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$arm => $word, )+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $word => Self::$arm, )+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::KNOWN[0].clone()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(word.as_ref()))
            }
        }
    };
}
