use agentflow::mailbox::Mailbox;
use agentflow::prelude::*;

struct Cart(u32);

static CART: StateKey<Cart> = StateKey::session("cart");

/// Put so many into the cart.
#[tool]
async fn put(cx: &Context, pieces: u32) -> Result<u32> {
    let before = cx.state(&CART).await?.map_or(0, |cart| cart.0);
    cx.set(&CART, &Cart(before + pieces))?;
    Ok(before + pieces)
}

static NOTES: Mailbox<Cart> = Mailbox::new("notes", &["planner", "writer"]);

async fn tell(cx: &Context) -> Result<()> {
    cx.send_mail(&NOTES, "planner", "writer", &Cart(1))
}

async fn forget_cart(runtime: &Runtime) -> Result<()> {
    runtime.persistent_state().set_app(&CART, None).await
}

fn main() {}
