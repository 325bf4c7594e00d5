"""Answers of agents, each with a paraphrase of it and with another answer to the same question."""

ANSWERS = [
    (
        "Your order A-17 has shipped and should arrive on Friday.",
        "Order A-17 has been shipped; it should arrive this Friday.",
        "I'm sorry, I can't help with that request.",
    ),
    (
        "Your order A-17 has shipped and should arrive on Friday.",
        "Good news! Your order A-17 is on its way and is expected to arrive on Friday.",
        "I could not find any order under that number.",
    ),
    (
        "I have refunded 25.00 EUR for order A-17. It will appear in 3 to 5 days.",
        "The refund of 25.00 EUR for order A-17 has been issued and will appear within 3 to 5 days.",
        "Refunds are not possible after 30 days, so I cannot refund this order.",
    ),
    (
        "The capital of Australia is Canberra.",
        "Canberra is the capital of Australia.",
        "I am not able to answer questions about geography.",
    ),
    (
        "There are 3 open tickets assigned to you: T-1, T-4 and T-9.",
        "You have 3 open tickets assigned: T-1, T-4, and T-9.",
        "You do not have permission to view tickets.",
    ),
    (
        "The meeting is scheduled for Tuesday at 10:00 in room B.",
        "Your meeting takes place on Tuesday at 10:00 in room B.",
        "No meeting was found in your calendar.",
    ),
    (
        "It is currently 18 degrees and cloudy in Berlin.",
        "In Berlin it is cloudy with a temperature of 18 degrees right now.",
        "The weather service is unavailable at the moment.",
    ),
    (
        "To reset your password, click Forgot password on the sign-in page and follow the link in the email.",
        "You can reset your password by clicking Forgot password on the sign-in page; then follow the link you get by email.",
        "Please contact your administrator to have your account unlocked.",
    ),
    (
        "Your subscription was cancelled. You can use it until 31 May.",
        "I have cancelled your subscription; it stays active until 31 May.",
        "As an AI model, I cannot make changes to your subscription.",
    ),
    (
        "The invoice total is 1,204.50 USD, due on 1 June.",
        "The total of the invoice is 1,204.50 USD and it is due on 1 June.",
        "I could not open the invoice you attached.",
    ),
    (
        "Flight LH 123 departs at 14:05 from gate B22.",
        "LH 123 leaves from gate B22 at 14:05.",
        "There are no seats left on this flight.",
    ),
    (
        "Yes, the restaurant has a table for four at 7 pm tonight.",
        "A table for four is available at the restaurant at 7 pm tonight.",
        "The restaurant is closed on Mondays.",
    ),
    (
        "I found two products that match: the Aero lamp (49 EUR) and the Luna lamp (59 EUR).",
        "Two products match your search: Aero lamp at 49 EUR and Luna lamp at 59 EUR.",
        "Nothing in our catalogue matches your search.",
    ),
    (
        "The function returns None because the loop ends before the return statement is reached.",
        "It returns None since the loop finishes before reaching the return statement.",
        "I need to see the code before I can say anything about it.",
    ),
    (
        "Sure! I've added milk, eggs and bread to your shopping list.",
        "Milk, eggs and bread have been added to your shopping list.",
        "Which list should I add these to?",
    ),
    (
        "The document describes the company's travel policy: book economy class, keep receipts, and file expenses within 30 days.",
        "It is the travel policy of the company: economy class bookings, receipts must be kept, expenses filed within 30 days.",
        "The document is empty.",
    ),
    (
        "Your account balance is 340.20 EUR.",
        "The balance of your account is 340.20 EUR.",
        "For security reasons I can't disclose account details.",
    ),
    (
        "The server is down since 09:12 because the disk is full.",
        "Because its disk is full, the server has been down since 09:12.",
        "All systems are operational.",
    ),
    (
        "I sent the email to Anna with the report attached.",
        "The email with the report has been sent to Anna.",
        "I don't have access to your email.",
    ),
    (
        "We ship to Norway. Delivery takes 5 to 7 business days and costs 12 EUR.",
        "Yes, we deliver to Norway; it takes 5 to 7 business days and costs 12 EUR.",
        "Unfortunately we only deliver inside the EU.",
    ),
    (
        "The test fails because the fixture is created after the client connects. Move the fixture before the client.",
        "The cause of the failure: the fixture is created after the client connects. Create it before the client.",
        "I ran out of time before finding the cause.",
    ),
    (
        "Paris, Lyon and Marseille are the three largest cities of France by population: Paris, Marseille, Lyon.",
        "The three largest French cities by population are Paris, Marseille and Lyon.",
        "I cannot browse the internet for current statistics.",
    ),
    (
        "Your appointment with Dr. Weber is confirmed for 3 March at 9:30.",
        "I've confirmed your appointment with Dr. Weber on 3 March at 9:30.",
        "Dr. Weber does not take new patients.",
    ),
    (
        "The package was delivered yesterday at 16:40 and signed by M. Rossi.",
        "It was delivered yesterday at 16:40; M. Rossi signed for it.",
        "The package was returned to the sender.",
    ),
    ("The answer is 42.", "42.", "I can't compute that."),
    (
        "Done: the branch has been merged into main and deleted.",
        "The branch was merged into main and has been deleted.",
        "The merge failed: there are conflicts in app.py.",
    ),
    (
        "Your card ending in 1234 was blocked. A new one arrives within 5 working days.",
        "I blocked the card ending in 1234. You will receive a new one within 5 working days.",
        "I need you to verify your identity first.",
    ),
    (
        "The contract ends on 30 September 2025 and renews for a year unless you cancel by 30 June.",
        "Unless cancelled by 30 June, the contract ending on 30 September 2025 renews for one year.",
        "I could not find a termination clause.",
    ),
    (
        "Nothing to refund: the order has not been paid yet.",
        "There is nothing to refund because the order was not paid yet.",
        "I have refunded the order in full.",
    ),
    (
        "The largest planet is Jupiter, with a diameter of about 143,000 km.",
        "Jupiter is the largest planet; its diameter is about 143,000 km.",
        "Sorry, something went wrong. Please try again.",
    ),
    (
        "I created ticket HELP-77 for the VPN problem and assigned it to the network team.",
        "Ticket HELP-77 about the VPN problem was created and assigned to the network team.",
        "Have you tried restarting the VPN client?",
    ),
    (
        "The query returned 12 rows; revenue was highest in March with 84,000 EUR.",
        "12 rows came back. March had the highest revenue, 84,000 EUR.",
        "The table sales does not exist.",
    ),
    (
        "Yes. Python 3.11 supports exception groups.",
        "Python 3.11 does support exception groups.",
        "I only know about versions up to 3.9.",
    ),
    (
        "Please take one tablet every eight hours with food.",
        "Take one tablet with food every eight hours.",
        "I'm not a doctor and can't give medical advice.",
    ),
    (
        "Here is a summary: sales grew by 8 percent, costs were flat and profit rose to 2.1 million.",
        "In summary, sales were up 8 percent, costs stayed flat and profit rose to 2.1 million.",
        "I can't summarise confidential documents.",
    ),
    (
        "The hotel has a pool, free parking and breakfast from 7 to 10.",
        "There is a pool, free parking, and breakfast is served from 7 to 10.",
        "That hotel is fully booked.",
    ),
]
