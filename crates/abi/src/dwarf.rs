//! Address classes of DWARF: the guide, 5.2.
//!
//! In: the value of a `DW_AT_address_class`. Out: its code and meaning. Guaranteed: the values are
//! 1 to 12.

use std::fmt;

/// The attribute that has them.
pub const DW_AT_ADDRESS_CLASS: u16 = 0x33;

macro_rules! classes {
    ($($variant:ident $value:literal $code:literal $description:literal;)*) => {
        /// The memory space of a variable or parameter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the codes say what the variants are")]
        pub enum AddressClass { $($variant = $value),* }

        impl AddressClass {
            /// All of them, in the order of the guide.
            pub const ALL: &[AddressClass] = &[$(AddressClass::$variant),*];

            /// The code in the guide: `ADDR_global_space`.
            pub const fn code(self) -> &'static str {
                match self { $(AddressClass::$variant => $code),* }
            }

            /// The guide's words for it.
            pub const fn description(self) -> &'static str {
                match self { $(AddressClass::$variant => $description),* }
            }
        }
    };
}

classes! {
    Code 1 "ADDR_code_space" "Code storage";
    Reg 2 "ADDR_reg_space" "Register storage";
    Sreg 3 "ADDR_sreg_space" "Special register storage";
    Const 4 "ADDR_const_space" "Constant storage";
    Global 5 "ADDR_global_space" "Global storage";
    Local 6 "ADDR_local_space" "Local storage";
    Param 7 "ADDR_param_space" "Parameter storage";
    Shared 8 "ADDR_shared_space" "Shared storage";
    Surf 9 "ADDR_surf_space" "Surface storage";
    Tex 10 "ADDR_tex_space" "Texture storage";
    TexSampler 11 "ADDR_tex_sampler_space" "Texture sampler storage";
    Generic 12 "ADDR_generic_space" "Generic-address storage";
}

impl AddressClass {
    /// The class with this value.
    pub fn of_value(value: u64) -> Option<Self> {
        AddressClass::ALL.iter().copied().find(|class| class.value() == value)
    }

    /// The value in debug information.
    pub const fn value(self) -> u64 {
        self as u64
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_from_one_and_lead_back() {
        for (class, value) in AddressClass::ALL.iter().zip(1..) {
            assert_eq!(class.value(), value);
            assert_eq!(AddressClass::of_value(value), Some(*class));
            let stem = class.code().strip_prefix("ADDR_").unwrap();
            assert!(stem.ends_with("_space"), "{stem}");
            assert!(class.description().ends_with(" storage"));
        }
        assert_eq!(AddressClass::ALL.len(), 12);
        assert_eq!(AddressClass::of_value(0), None);
        assert_eq!(AddressClass::of_value(13), None);
        assert_eq!(AddressClass::of_value(u64::MAX), None);
        assert_eq!(AddressClass::Shared.to_string(), "ADDR_shared_space");
    }
}
