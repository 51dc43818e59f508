use agentflow::tool;

struct Shop;

impl Shop {
    #[tool]
    fn open(hour: u8) -> bool {
        hour > 8
    }
}

fn main() {}
